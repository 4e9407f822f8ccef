// Memory event by event: what is alive at each, from module to tensor, and in the allocator's segments.

const [MADE, FREED, BYTES, STACK, ADDRESS] = [0, 1, 2, 3, 4];
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colors = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5'];
function sums(memory, rows) {
  const into = new Float64Array(memory.events);
  for (const row of rows) {
    into[Math.max(row[MADE], 0)] += row[BYTES];
    if (row[FREED] >= 0) into[row[FREED]] -= row[BYTES];
  }
  for (let i = 1; i < into.length; i++) into[i] += into[i - 1];
  return into;
}
const curves = page.memories.map(memory => ({ allocated: sums(memory, memory.tensors), reserved: sums(memory, memory.segments) }));
let memory = page.memories[0], allocated = curves[0].allocated, reserved = curves[0].reserved, count = memory.events;
// Of several runs or plans one is shown, and the peaks of the others are drawn behind it.
function show(k) {
  memory = page.memories[k]; allocated = curves[k].allocated; reserved = curves[k].reserved; count = memory.events;
  at = memory.peak; view = [0, count - 1]; root = [];
  drawAll();
}
// Where an event of one memory is in another: phases of the same name lie on each other, and what is between them is stretched.
function aligned(from, to) {
  const knots = [[0, 0]];
  for (const [name, begin, end] of from.marks) {
    const other = to.marks.find(mark => mark[0] === name && mark[1] >= knots[knots.length - 1][1]);
    if (other && begin >= knots[knots.length - 1][0]) knots.push([begin, other[1]], [end, other[2]]);
  }
  knots.push([from.events - 1, to.events - 1]);
  let k = 0;
  return i => {
    while (k + 2 < knots.length && i > knots[k + 1][0]) k++;
    const [[a, x], [b, y]] = [knots[k], knots[k + 1]];
    return x + (b > a ? (i - a) / (b - a) : 0) * (y - x);
  };
}
const aliveAt = (rows, i) => rows.filter(row => row[MADE] <= i && (row[FREED] < 0 || row[FREED] > i));
const frameText = f => (memory.frames[f][1] && memory.frames[f][2] ? memory.frames[f][1].split('/').pop() + ':' + memory.frames[f][2] + ' ' : '') + memory.frames[f][0];
const stackText = s => memory.labels[s];
// One colour for what lies under one outer module or function.
const groupOf = s => { const stack = memory.stacks[s]; return stack.length > 1 ? stack[1] : stack.length ? stack[0] : -1; };
const colorOf = s => colors[(groupOf(s) + 1) % colors.length];

let at = memory.peak, view = [0, count - 1];

// --- the timeline

const timeline = $('timeline');
function drawTimeline() {
  const width = timeline.clientWidth, height = 260, scale = window.devicePixelRatio || 1;
  timeline.width = width * scale; timeline.height = height * scale; timeline.style.height = height + 'px';
  const c = timeline.getContext('2d');
  c.scale(scale, scale);
  c.font = '11px system-ui, sans-serif';
  const [from, to] = view, top = 22, bottom = height - 4;
  let most = 1;
  for (let i = from; i <= to; i++) most = Math.max(most, reserved[i], allocated[i]);
  page.memories.forEach((other, k) => { if (other !== memory) for (const n of curves[k].allocated) most = Math.max(most, n); });
  const limit = report.usable_bytes && report.usable_bytes < 2.5 * most ? report.usable_bytes : 0;
  most = Math.max(most, limit) * 1.04;
  const x = i => (i - from) / Math.max(to - from, 1) * width, y = n => bottom - n / most * (bottom - top);
  memory.marks.forEach(([name, begin, end], k) => {
    if (end < from || begin > to) return;
    c.fillStyle = color(k % 2 ? '--band1' : '--band0');
    c.fillRect(x(begin), 0, Math.max(x(end) - x(begin), 1), height);
    c.fillStyle = color('--text');
    if (x(end) - x(begin) > c.measureText(name).width + 6) c.fillText(name, Math.max(x(begin), 0) + 3, 14);
  });
  const curve = (values, style, filled) => {
    c.beginPath();
    c.moveTo(0, y(values[from]));
    const stride = Math.max(1, Math.floor((to - from) / (2 * width)));
    for (let i = from; i <= to; i += stride) {
      let high = values[i];
      for (let k = i; k < Math.min(i + stride, to + 1); k++) high = Math.max(high, values[k]);
      c.lineTo(x(i), y(high));
      if (i + stride <= to) c.lineTo(x(i + stride), y(high));
    }
    c.lineTo(width, y(values[to]));
    c.strokeStyle = style; c.lineWidth = 1.5; c.stroke();
    if (filled) { c.lineTo(width, bottom); c.lineTo(0, bottom); c.globalAlpha = .25; c.fillStyle = style; c.fill(); c.globalAlpha = 1; }
  };
  page.memories.forEach((other, k) => {
    if (other === memory || !other.events) return;
    const place = aligned(other, memory);
    c.beginPath();
    const stride = Math.max(1, Math.floor(other.events / 2000));
    for (let i = 0; i < other.events; i += stride) {
      let high = curves[k].allocated[i];
      for (let j = i; j < Math.min(i + stride, other.events); j++) high = Math.max(high, curves[k].allocated[j]);
      c.lineTo(x(place(i)), y(high));
    }
    c.strokeStyle = color('--quiet'); c.setLineDash([2, 3]); c.lineWidth = 1; c.stroke(); c.setLineDash([]);
  });
  curve(reserved, color('--reserved'), false);
  curve(allocated, color('--allocated'), true);
  if (limit) {
    c.setLineDash([6, 4]); c.strokeStyle = color('--bad'); c.beginPath(); c.moveTo(0, y(limit)); c.lineTo(width, y(limit)); c.stroke(); c.setLineDash([]);
    const words = 'the GPU has ' + bytes(limit);
    c.fillStyle = color('--bad'); c.fillText(words, width - c.measureText(words).width - 4, y(limit) - 4);
  }
  if (memory.peak >= from && memory.peak <= to) {
    c.fillStyle = color('--allocated'); c.beginPath(); c.arc(x(memory.peak), y(allocated[memory.peak]), 4, 0, 7); c.fill();
    const words = 'peak ' + bytes(allocated[memory.peak]), wide = c.measureText(words).width;
    c.fillStyle = color('--text'); c.fillText(words, Math.min(Math.max(x(memory.peak) - wide / 2, 2), width - wide - 2), y(allocated[memory.peak]) - 8);
  }
  if (drag) { c.fillStyle = color('--cursor'); c.globalAlpha = .2; c.fillRect(Math.min(drag[0], drag[1]), 0, Math.abs(drag[1] - drag[0]), height); c.globalAlpha = 1; }
  c.strokeStyle = color('--cursor'); c.lineWidth = 1; c.beginPath(); c.moveTo(x(at), top - 4); c.lineTo(x(at), height); c.stroke();
}
let drag = null;
const indexAt = px => Math.round(view[0] + Math.min(Math.max(px / timeline.clientWidth, 0), 1) * (view[1] - view[0]));
function moveTo(i) {
  at = Math.min(Math.max(i, 0), count - 1);
  if (at < view[0] || at > view[1]) { const half = (view[1] - view[0]) >> 1; view = [Math.max(at - half, 0), Math.min(at + half, count - 1)]; }
  drawAll();
}
timeline.addEventListener('pointerdown', e => { drag = [e.offsetX, e.offsetX]; timeline.setPointerCapture(e.pointerId); });
timeline.addEventListener('pointermove', e => { if (drag) { drag[1] = e.offsetX; drawTimeline(); } });
timeline.addEventListener('pointerup', e => {
  const [a, b] = [indexAt(Math.min(...drag)), indexAt(Math.max(...drag))], dragged = Math.abs(drag[1] - drag[0]) > 6;
  drag = null;
  if (dragged && b - a > 2) { view = [a, b]; if (at < a || at > b) at = a; drawAll(); } else moveTo(indexAt(e.offsetX));
});
timeline.addEventListener('dblclick', () => { view = [0, count - 1]; drawAll(); });
timeline.addEventListener('keydown', e => {
  const step = e.shiftKey ? Math.max(1, Math.round((view[1] - view[0]) / 50)) : 1;
  const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: count - 1, p: memory.peak };
  if (e.key in moves) { e.preventDefault(); moveTo(moves[e.key]); }
  if (e.key === 'Escape') { view = [0, count - 1]; drawAll(); }
});

// --- what is alive there

let sortBy = 'bytes';
function shares() {
  const all = new Map();
  for (const t of aliveAt(memory.tensors, at)) {
    const text = stackText(t[STACK]), share = all.get(text) || { text, bytes: 0, tensors: 0, stack: t[STACK] };
    share.bytes += t[BYTES]; share.tensors++;
    all.set(text, share);
  }
  const rows = [...all.values()];
  rows.sort(sortBy === 'text' ? (a, b) => a.text.localeCompare(b.text) : (a, b) => b[sortBy] - a[sortBy]);
  return rows;
}
function drawAlive() {
  const rows = shares(), wanted = $('search').value.toLowerCase(), body = $('alive');
  $('moment').textContent = (at === memory.peak ? 'At the peak' : 'At event ' + (memory.first + at + 1).toLocaleString('en')) + ': ' + bytes(allocated[at]) + ' allocated, ' +
    bytes(reserved[at]) + ' reserved' + phaseAt(at) + '.';
  body.replaceChildren();
  let shown = 0;
  for (const row of rows) {
    if (wanted && !row.text.toLowerCase().includes(wanted)) continue;
    if (++shown > 300) continue;
    const tr = element('tr');
    tr.append(element('td', bytes(row.bytes)), element('td', percent(row.bytes / Math.max(allocated[at], 1))), element('td', row.tensors.toLocaleString('en')), element('td', row.text));
    body.append(tr);
  }
  $('more').textContent = shown > 300 ? (shown - 300).toLocaleString('en') + ' more: search for them' : shown === 0 ? 'nothing has this in its name' : '';
}
const phaseAt = i => { const inside = memory.marks.filter(([, begin, end]) => begin <= i && i <= end); return inside.length ? ', in ' + inside[inside.length - 1][0] : ''; };

function shape(parent, name, attributes, title) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (title) { const t = document.createElementNS('http://www.w3.org/2000/svg', 'title'); t.textContent = title; made.append(t); }
  parent.append(made);
  return made;
}

let root = [];  // frames that the icicle has been opened at
function drawIcicle() {
  const svg = $('icicle'), width = svg.clientWidth || 800, tall = 20;
  svg.replaceChildren();
  const tree = { name: 'all', bytes: 0, children: new Map(), depth: 0 };
  for (const t of aliveAt(memory.tensors, at)) {
    const names = memory.stacks[t[STACK]].length ? memory.stacks[t[STACK]].map(frameText) : [stackText(t[STACK])];
    if (root.some((name, k) => names[k] !== name)) continue;
    let node = tree;
    node.bytes += t[BYTES];
    for (const name of names.slice(root.length)) {
      if (!node.children.has(name)) node.children.set(name, { name, bytes: 0, children: new Map(), stack: t[STACK] });
      node = node.children.get(name);
      node.bytes += t[BYTES];
    }
  }
  let deepest = 0;
  const draw = (node, x, wide, depth, path) => {
    deepest = Math.max(deepest, depth);
    const words = node.name + ' · ' + bytes(node.bytes);
    const box = shape(svg, 'rect', { x, y: depth * tall, width: Math.max(wide - 1, .5), height: tall - 1, rx: 2, fill: depth ? color(colorOf(node.stack)) : color('--c5') }, words);
    box.style.cursor = 'pointer';
    box.addEventListener('click', () => { root = depth ? root.concat(path) : root.slice(0, -1); drawIcicle(); });
    if (wide > 62) { const fits = Math.floor((wide - 8) / 6); shape(svg, 'text', { x: x + 4, y: depth * tall + 14 }).textContent = words.length > fits ? words.slice(0, fits - 1) + '…' : words; }
    let offset = x;
    if (depth < 11)
      for (const child of [...node.children.values()].sort((a, b) => b.bytes - a.bytes)) {
        const part = child.bytes / node.bytes * wide;
        if (part >= 1.5) draw(child, offset, part, depth + 1, path.concat(child.name));
        offset += part;
      }
  };
  tree.name = root.length ? root[root.length - 1] + ' (click: back)' : 'all that is alive';
  if (tree.bytes) draw(tree, 0, width, 0, []);
  svg.setAttribute('viewBox', `0 0 ${width} ${(deepest + 1) * tall}`);
  svg.style.height = (deepest + 1) * tall + 'px';
}

// --- the allocator's segments

function drawSegments() {
  const svg = $('segments'), width = svg.clientWidth || 800, tall = 16;
  svg.replaceChildren();
  const merged = [];
  for (const s of aliveAt(memory.segments, at).sort((a, b) => a[3] - b[3])) {
    const last = merged[merged.length - 1];
    if (last && memory.expandable && last.address + last.bytes === s[3]) last.bytes += s[BYTES];
    else merged.push({ address: s[3], bytes: s[BYTES] });
  }
  const tensors = aliveAt(memory.tensors, at).sort((a, b) => a[ADDRESS] - b[ADDRESS]);
  const largest = Math.max(1, ...merged.map(s => s.bytes));
  merged.sort((a, b) => b.bytes - a.bytes);
  let holes = 0, hole = 0;
  const rows = merged.slice(0, 60);
  merged.forEach((segment, row) => {
    let end = segment.address;
    const drawn = row < rows.length, wide = n => n / largest * width, free = (from, to) => {
      if (to <= from) return;
      holes += to - from; hole = Math.max(hole, to - from);
      if (drawn) shape(svg, 'rect', { x: wide(from - segment.address), y: row * tall, width: wide(to - from), height: tall - 2, fill: color('--hole') }, 'free: ' + bytes(to - from));
    };
    for (const t of tensors) {
      if (t[ADDRESS] < segment.address || t[ADDRESS] >= segment.address + segment.bytes) continue;
      free(end, t[ADDRESS]);
      if (drawn) shape(svg, 'rect', { x: wide(t[ADDRESS] - segment.address), y: row * tall, width: Math.max(wide(t[BYTES]) - .5, .5), height: tall - 2, fill: color(colorOf(t[STACK])) }, stackText(t[STACK]) + ' · ' + bytes(t[BYTES]));
      end = t[ADDRESS] + t[BYTES];
    }
    free(end, segment.address + segment.bytes);
  });
  svg.setAttribute('viewBox', `0 0 ${width} ${Math.max(rows.length, 1) * tall}`);
  svg.style.height = Math.max(rows.length, 1) * tall + 'px';
  $('holes').textContent = merged.length.toLocaleString('en') + (memory.expandable ? ' mapped ranges' : ' segments') + ', ' + bytes(holes) + ' in them free, the largest hole ' + bytes(hole) +
    (merged.length > rows.length ? '; the ' + rows.length + ' largest are drawn' : '') + '.';
}

function drawAll() { drawTimeline(); drawAlive(); drawIcicle(); drawSegments(); }
$('search').addEventListener('input', drawAlive);
$('to-peak').addEventListener('click', () => { view = [0, count - 1]; moveTo(memory.peak); });
document.querySelectorAll('button[data-sort]').forEach(b => b.addEventListener('click', () => { sortBy = b.dataset.sort; drawAlive(); }));
window.addEventListener('resize', drawAll);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
document.querySelectorAll('.needs-script').forEach(part => { part.hidden = false; });
if (page.memories.length > 1) {
  $('which-part').hidden = false;
  page.memories.forEach((m, k) => $('which').append(element('option', m.name, { value: k })));
  $('which').addEventListener('change', () => show(Number($('which').value)));
}
if (count > 0) drawAll();
