// The tables of a report: each list of its JSON is one, with a row an element, its keys as headings and their endings as units.
// What a list has of little use to a reader is left to --format json.

const shownColumns = {
  layers: ['name', 'type', 'saved_bytes', 'output_bytes', 'parameters', 'forward_macs', 'backward_flops', 'time forward_seconds', 'time backward_seconds', 'time bound', 'at'],
  gpus: ['gpu', 'gpus', 'usable_bytes', 'fits', 'asked_device_bytes', 'largest batch', 'step_seconds', 'samples_per_second', 'instance usd_per_hour', 'usd_per_million_samples', 'instance provider', 'instance name', 'instance price_date', 'power_of_two batch', 'largest device_bytes', 'refused'],
};
const hiddenLists = ['assumptions', 'at_most terms'];  // said in the notes, and in the text
const mostRows = 400;

const figure = n => Number(n.toPrecision(4)).toLocaleString('en', { maximumSignificantDigits: 4 });
function scaled(n, units, unit) {
  let value = Math.abs(n), k = 0;
  while (value >= 1000 && k + 1 < units.length) { value /= 1000; k++; }
  return (n < 0 ? '-' : '') + figure(value) + ' ' + units[k] + unit;
}
function seconds(n) {
  const size = Math.abs(n);
  return size >= 1 || size === 0 ? figure(n) + ' s' : size >= 1e-3 ? figure(n * 1e3) + ' ms' : figure(n * 1e6) + ' µs';
}
// A value in the unit that its key names, and a number to sort by.
function cell(value, key, unit) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? '✔' : '✖';
  if (Array.isArray(value)) return value.every(v => typeof v !== 'object' || v === null) ? value.join(' ') : JSON.stringify(value);
  if (typeof value === 'object') return JSON.stringify(value);
  if (typeof value !== 'number') return String(value);
  if (unit === 'bytes' || /(^|_)bytes($|_)/.test(key)) return bytes(value);
  if (unit === 'nanoseconds') return seconds(value / 1e9);
  if (/seconds$/.test(key)) return seconds(value);
  if (unit === 'FLOP' || /flops?$/.test(key)) return scaled(value, ['', 'k', 'M', 'G', 'T', 'P', 'E'], 'FLOP');
  if (/macs$/.test(key)) return scaled(value, ['', 'k', 'M', 'G', 'T', 'P', 'E'], 'MAC');
  if (/per_mille$/.test(key)) return (value / 10).toFixed(1) + ' %';
  return Number.isInteger(value) ? value.toLocaleString('en') : figure(value);
}
const heading = key => key.replaceAll('_', ' ').replace(/ (bytes|seconds|flops|macs)$/, '').replace(/ per mille$/, ', relative')
  .replace(/\bgpu(s?)\b/g, 'GPU$1').replace(/\busd\b/g, 'USD').replace(/\bcpu\b/g, 'CPU');

// Objects in a row become columns of their own: largest {batch} is "largest batch".
function flat(row, before = '') {
  if (row === null || typeof row !== 'object' || Array.isArray(row)) return { [before || 'value']: row };
  return Object.assign({}, ...Object.entries(row).map(([key, value]) => {
    const name = before ? before + ' ' + key : key;
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? flat(value, name) : { [name]: value };
  }));
}
const lastWord = name => name.slice(name.lastIndexOf(' ') + 1);

function table(name, list, into) {
  const rows = list.map(row => flat(row)), all = [...new Set(rows.flatMap(row => Object.keys(row)))];
  const used = all.filter(key => rows.some(row => row[key] !== null && row[key] !== '' && row[key] !== undefined));
  const keys = shownColumns[name] ? shownColumns[name].filter(key => used.includes(key)) : used.filter(key => key !== 'unit' && key !== 'schema');
  if (!keys.length) return;
  const unitOf = row => row.unit || (/(^|_)bytes($|_)/.test(name) ? 'bytes' : undefined);
  const isNumber = Object.fromEntries(keys.map(key => [key, rows.every(row => typeof row[key] !== 'string' && typeof row[key] !== 'boolean')]));
  let sortBy = null, down = true;
  into.append(element('h2', heading(name).replace(/^./, c => c.toUpperCase())));
  const search = element('input', undefined, { type: 'search', 'aria-label': 'Search ' + heading(name) }), more = element('span', '', { class: 'quiet' });
  if (rows.length > 12) { const p = element('p'); p.append(search, ' ', more); into.append(p); }
  const box = element('div', undefined, { class: 'scroll', tabindex: 0 }), made = element('table', undefined, { class: 'report' }), head = element('tr'), body = element('tbody');
  for (const key of keys) {
    const th = element('th', undefined, isNumber[key] ? {} : { class: 'words' }), button = element('button', key.split(' ').map(heading).join(' '));
    button.addEventListener('click', () => { down = sortBy === key ? !down : isNumber[key]; sortBy = key; draw(); });
    th.append(button); head.append(th);
  }
  const thead = element('thead');
  thead.append(head); made.append(thead, body); box.append(made); into.append(box);
  function draw() {
    const wanted = search.value.toLowerCase();
    let shown = rows.filter(row => !wanted || keys.some(key => String(row[key] ?? '').toLowerCase().includes(wanted)));
    const order = (a, b) => isNumber[sortBy] ? (a[sortBy] ?? -Infinity) - (b[sortBy] ?? -Infinity) : String(a[sortBy] ?? '').localeCompare(String(b[sortBy] ?? ''));
    if (sortBy) shown = [...shown].sort((a, b) => down ? order(b, a) : order(a, b));
    body.replaceChildren();
    for (const row of shown.slice(0, mostRows)) {
      const tr = element('tr');
      for (const key of keys) {
        const value = row[key], td = element('td', cell(value, lastWord(key), /^(base|now|delta)$/.test(key) ? unitOf(row) : undefined), isNumber[key] ? {} : { class: 'words' });
        if (typeof value === 'number' && Number.isInteger(value)) td.title = value.toLocaleString('en');
        if (typeof value === 'boolean') td.classList.add(value === (key !== 'exceeded') ? 'good' : 'bad');
        tr.append(td);
      }
      body.append(tr);
    }
    more.textContent = shown.length > mostRows ? (shown.length - mostRows).toLocaleString('en') + ' more: search for them' : shown.length === 0 ? 'nothing has this in it' : '';
  }
  search.addEventListener('input', draw);
  draw();
}

// Lists of the JSON, wherever they are.
function lists(value, name, found) {
  if (Array.isArray(value)) {
    if (value.length && value.every(v => v !== null && typeof v === 'object' && !Array.isArray(v)) && !hiddenLists.includes(name)) found.push([name, value]);
  } else if (value !== null && typeof value === 'object') {
    for (const [key, inner] of Object.entries(value)) lists(inner, name ? name + ' ' + key : key, found);
  }
  return found;
}

for (const [name, list] of lists(report, '', [])) table(name || 'points', list, $('tables'));
