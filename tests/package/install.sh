#!/usr/bin/env bash
# A user's project finds the installed library, builds and runs, wherever the installed tree is moved.
# Usage: install.sh BUILD_TREE EXAMPLES C_COMPILER CXX_COMPILER
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1
examples=$2
cc=$3
cxx=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/first" >"$folder/log"
mv "$folder/first" "$folder/moved"
for file in include/dhyan/dhyan.h include/dhyan/dhyan.hpp include/dhyan/nn.hpp bin/dhyan lib/libdhyan.so \
  lib/cmake/dhyan/dhyanConfig.cmake; do
  [ -e "$folder/moved/$file" ] || { echo "$file is not installed"; exit 1; }
done
"$folder/moved/bin/dhyan" info --json >"$folder/info" || { echo "the installed command does not run"; exit 1; }

configure() { # PROJECT NAME ARGUMENT...
  local project=$1 name=$2
  shift 2
  cmake -S "$project" -B "$folder/$name" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$folder/moved" "$@" >"$folder/log" 2>&1
}
configure "$examples/cmake" user || { cat "$folder/log"; exit 1; }
cmake --build "$folder/user" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
for program in attention_cpp attention_c; do
  echo "$program:"
  "$folder/user/$program" || { echo "$program failed"; exit 1; }
done

# So do the codelab's steps: as a project, and in the one line that docs/codelab.md gives.
configure "$examples/codelab" codelab || { cat "$folder/log"; exit 1; }
cmake --build "$folder/codelab" --target 09_module >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
"$cxx" -std=c++20 -O2 "$examples/codelab/04_fused_attention.cpp" -o "$folder/04" -I"$folder/moved/include" \
  -L"$folder/moved/lib" -Wl,-rpath,"$folder/moved/lib" -ldhyan
for program in codelab/09_module 04; do
  echo "$program:"
  "$folder/$program" || { echo "$program failed"; exit 1; }
done

# A version this library does not satisfy is refused by find_package itself.
sed 's/find_package(dhyan [0-9.]*/find_package(dhyan 99.0/' "$examples/cmake/CMakeLists.txt" >"$folder/CMakeLists.txt"
cp "$examples"/cmake/attention.* "$folder"
if configure "$folder" newer; then
  echo "find_package(dhyan 99.0) succeeded"
  exit 1
fi
grep -q 'requested version "99.0"' "$folder/log" || { cat "$folder/log"; exit 1; }
