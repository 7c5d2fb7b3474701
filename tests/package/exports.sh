#!/usr/bin/env bash
# The library exports what dhyan.h declares, all of it and nothing else.
# Usage: exports.sh libdhyan.so dhyan.h
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
library=$1
header=$2
declared=$(grep -E '^DHYAN_API ' "$header" | grep -oE '\bdhyan_[a-z0-9_]+\(' | tr -d '(' | sort -u)
exported=$(nm --dynamic --defined-only --format=posix "$library" | awk '{ print $1 }' | sort -u)
[ -n "$declared" ] || { echo "no function found in $header"; exit 1; }
if ! difference=$(diff <(echo "$declared") <(echo "$exported")); then
  echo "declared in $header (<) and exported by $library (>) differ:"
  echo "$difference"
  exit 1
fi
echo "$(wc -l <<<"$exported") functions declared and exported"
