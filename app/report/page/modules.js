// SPDX-License-Identifier: Apache-2.0
// Joins Vega's modules into the one object `vega`, as its own bundle does.
const vega = (function () {
  const parts = {};
  /* parts */
  const loaded = {};
  function require(name) {
    if (!loaded[name]) {
      const module = { exports: (loaded[name] = {}) };
      parts[name].call(loaded[name], module.exports, module, require);
      loaded[name] = module.exports;
    }
    return loaded[name];
  }
  const all = {};
  for (const name of Object.keys(parts)) Object.assign(all, require(name));
  all.transforms = require("vega-dataflow").transforms;
  for (const name of ["transforms", "view-transforms", "encode"]) Object.assign(all.transforms, require("vega-" + name));
  return all;
})();
