'use strict';
// The page of gpuplan -o report.html. Everything that it shows is computed from the JSON of the page: `report`, as gpuplan
// prints it with --format json, and `memories`, the allocations of steps or runs (estimator/report/memory_page.h).
const page = JSON.parse(document.getElementById('gpuplan').textContent);
const report = page.report;
const $ = id => document.getElementById(id);

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = Math.abs(n), unit = 0;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; unit++; }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return (n < 0 ? '-' : '') + value.toFixed(digits) + ' ' + units[unit];
}
const percent = part => (100 * part).toFixed(1) + ' %';
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
