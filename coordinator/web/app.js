/*
 * The status page.  It loads every view once, then listens to the stream of events and keeps them
 * up to date; whatever comes from a peer or the operator is put into the page as text, never as
 * HTML.  Sections: words for numbers, tables, tiles, chart, views, stream, operator.
 */
'use strict';

const $ = (id) => document.getElementById(id);
const ROWS = 50, PEERS_SHOWN = 100;
const SILENT_S = 45, RETRY_LEAST_S = 1, RETRY_MOST_S = 30;

const run = {overview: null, at: 0, peers: new Map(), rounds: new Map(), loss: new Map(),
	yardsticks: null, ledger: [], refusals: {total: 0, counts: [], recent: []}};
let token = '';   /* the operator's, while unlocked */

/* ---- words for numbers; null and undefined are a dash */

const DASH = '–';
const known = (v) => v !== null && v !== undefined && Number.isFinite(v);
const count = (n) => known(n) ? n.toLocaleString('en') : DASH;
const fixed = (v, digits) => known(v) ? v.toFixed(digits) : DASH;
const percent = (v) => known(v) ? `${(100 * v).toFixed(1)} %` : DASH;

/* Three digits and a prefix: "612 k", "1.2 MB". */
function short(n, unit = '')
{
	if (!known(n))
		return DASH;
	const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
	let i = 0;
	for (; Math.abs(n) >= 999.5 && i < prefixes.length - 1; i++)
		n /= 1000;
	const digits = Number.isInteger(n) && i === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
	return `${n.toFixed(digits)} ${prefixes[i]}${unit}`.trim();
}

function span(s)
{
	if (!known(s))
		return DASH;
	if (s < 1)
		return `${Math.round(1000 * s)} ms`;
	if (s < 60)
		return `${s < 9.95 ? s.toFixed(1) : Math.round(s)} s`;
	const units = [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']];
	const [big, name, small, rest] = units.find(([least]) => s >= least);
	const left = Math.floor(s % big / small);
	return `${Math.floor(s / big)} ${name}` + (left ? ` ${left} ${rest}` : '');
}

function moment(at_s)
{
	if (!known(at_s))
		return DASH;
	const at = new Date(1000 * at_s), today = new Date().toDateString() === at.toDateString();
	const time = at.toLocaleTimeString('en-GB');
	return today ? time : `${at.toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})} ${time}`;
}

const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
const nameOf = (number) => {
	const peer = run.peers.get(number);
	return peer ? `${peer.name} (${number})` : `peer ${number}`;
};

/* ---- small parts of a page */

function make(tag, text, attributes = {})
{
	const e = document.createElement(tag);
	if (text !== undefined)
		e.textContent = text;
	for (const [name, value] of Object.entries(attributes))
		e.setAttribute(name, value);
	return e;
}

/* What a figure means stands once, in the page's own explanations. */
const meaning = (term) => {
	const dd = document.querySelector(`[data-term="${term}"]`);
	return dd ? dd.textContent.replace(/\s+/g, ' ').trim() : '';
};

/* Short with the whole on click. */
function hashButton(hex)
{
	if (!hex)
		return make('span', DASH);
	const b = make('button', hex.slice(0, 10), {type: 'button', class: 'hash', title: hex,
		'aria-expanded': 'false', 'aria-label': `hash ${hex.slice(0, 10)}, show all of it`});
	b.addEventListener('click', () => {
		const whole = b.getAttribute('aria-expanded') === 'false';
		b.setAttribute('aria-expanded', String(whole));
		b.textContent = whole ? hex : hex.slice(0, 10);
	});
	return b;
}

/* A line of facts: texts and elements with dots between them. */
function facts(into, parts)
{
	into.replaceChildren(...parts.flatMap((p, i) => i ? [' · ', p] : [p]));
}

/* ---- tables.  A column: label, term (its explanation), number (aligned so), of(row) the value,
 * put(cell, value, row) how it is shown when it is no plain text.  Cells are touched only when
 * their value has changed, so that a reader's selection and focus stay. */

function table(id, caption, columns, empty)
{
	const t = $(id), body = make('tbody', undefined, {role: 'rowgroup'}), shown = new Map();
	const head = make('tr', undefined, {role: 'row'});
	for (const c of columns) {
		const th = make('th', c.label, {scope: 'col', role: 'columnheader'});
		if (c.term)
			th.title = meaning(c.term);
		if (c.number)
			th.className = 'number';
		head.append(th);
	}
	const thead = make('thead', undefined, {role: 'rowgroup'});
	thead.append(head);
	/* The roles say again what CSS takes away where rows are shown as cards. */
	t.setAttribute('role', 'table');
	t.setAttribute('aria-label', caption);
	t.replaceChildren(thead, body);

	const newRow = (key) => {
		const tr = make('tr', undefined, {role: 'row', 'data-key': key});
		const cells = columns.map((c, i) => {
			const cell = i ? make('td', undefined, {role: 'cell', 'data-label': c.label})
				: make('th', undefined, {role: 'rowheader', scope: 'row'});
			cell.className = c.number && i ? 'number' : c.kind || '';
			tr.append(cell);
			return {cell, was: undefined};
		});
		return {tr, cells};
	};
	const fill = (entry, row) => columns.forEach((c, i) => {
		const value = c.of(row), is = JSON.stringify(value), at = entry.cells[i];
		if (at.was === is)
			return;
		at.was = is;
		if (c.put)
			c.put(at.cell, value, row);
		else
			at.cell.textContent = value;
	});
	return (rows, keyOf) => {
		const order = [];
		const keys = new Set();
		for (const row of rows) {
			const key = String(keyOf(row));
			if (!shown.has(key))
				shown.set(key, newRow(key));
			fill(shown.get(key), row);
			keys.add(key);
			order.push(shown.get(key).tr);
		}
		for (const key of shown.keys())
			if (!keys.has(key))
				shown.delete(key);
		if (!order.length) {
			const tr = make('tr', undefined, {role: 'row'});
			tr.append(make('td', empty, {role: 'cell', class: 'empty', colspan: columns.length}));
			order.push(tr);
		}
		if (order.length !== body.children.length || order.some((tr, i) => body.children[i] !== tr))
			body.replaceChildren(...order);
	};
}

/* A main line and a quiet one below it. */
function two(cell, first, second)
{
	cell.replaceChildren(first);
	if (second)
		cell.append(make('span', second, {class: 'under'}));
}

const peerColumns = [
	{label: 'Peer', kind: 'name', of: (p) => [p.name, p.number, p.version, p.joined_s],
		put(cell, [name, number, version, joined]) {
			const box = make('span');
			box.append(make('bdi', name), make('span', `number ${number}`, {class: 'under'}));
			cell.title = `version ${version || 'unknown'}, on the roster since ${moment(joined)}`;
			cell.replaceChildren(box);
		}},
	{label: 'State', term: 'state', of: (p) => [p.removed ? 'removed' : p.state, p.reason || ''],
		put(cell, [state, reason]) {
			const box = make('span');
			box.append(make('span', state, {class: 'state', 'data-state': state}));
			if (reason)
				box.append(make('span', reason, {class: 'under'}));
			cell.replaceChildren(box);
		}},
	{label: 'Round', term: 'steps', of: (p) => [p.steps_done, p.steps],
		put(cell, [done, steps]) {
			const box = make('span', steps ? `${count(done)} of ${count(steps)}` : DASH);
			if (steps)
				box.append(make('progress', undefined, {max: steps, value: Math.min(done, steps),
					'aria-label': 'steps done', class: 'steps'}));
			cell.replaceChildren(box);
		}},
	{label: 'Speed', term: 'peer-speed', number: true,
		of: (p) => p.tokens_per_s ? `${short(p.tokens_per_s)} tok/s` : DASH},
	{label: 'RTT', term: 'rtt', number: true, of: (p) => known(p.rtt_ms) ? span(p.rtt_ms / 1000) : DASH},
	{label: 'Up', term: 'bytes', number: true, of: (p) => short(p.bytes_up, 'B')},
	{label: 'Down', term: 'bytes', number: true, of: (p) => short(p.bytes_down, 'B')},
	{label: 'Tokens', term: 'share', number: true, of: (p) => p.tokens,
		put(cell, tokens) {
			cell.textContent = short(tokens);
			cell.title = `${count(tokens)} tokens`;
			cell.dataset.value = tokens;
		}},
	{label: 'Share', term: 'share', number: true, of: (p) => percent(p.share)},
	{label: 'Refused', term: 'refused', number: true, of: (p) => {
		const last = run.refusals.recent.find((r) => r.member === p.number);
		return [p.refusals, last ? last.name : '', last ? last.text : ''];
	}, put(cell, [n, name, text]) {
		two(cell, count(n), name.replaceAll('_', ' '));
		cell.title = text;
	}},
];

const removeColumn = {label: 'Operator', of: (p) => [p.number, p.removed], put(cell, [number, removed], p) {
	cell.replaceChildren();
	if (removed)
		return;
	const b = make('button', 'Remove', {type: 'button', 'aria-label': `Remove peer ${number}`});
	b.addEventListener('click', () => removePeer(p));
	cell.append(b);
}};

const roundColumns = [
	{label: 'Round', of: (r) => count(r.round)},
	{label: 'In', term: 'in', number: true, of: (r) => count(r.members)},
	{label: 'Dropped', term: 'in', number: true, of: (r) => count(r.dropped)},
	{label: 'Tokens', term: 'round-tokens', number: true, of: (r) => count(r.tokens)},
	{label: 'Took', term: 'took', number: true, of: (r) => span(r.took_s)},
	{label: 'Up', term: 'round-bytes', number: true, of: (r) => short(r.bytes_up, 'B')},
	{label: 'Down', term: 'round-bytes', number: true, of: (r) => short(r.bytes_down, 'B')},
	{label: 'Closed', number: true, of: (r) => moment(r.closed_s)},
];

const showHash = (cell, hex) => cell.replaceChildren(hashButton(hex));
const ledgerColumns = [
	{label: 'Entry', term: 'entry', of: (e) => count(e.sequence)},
	{label: 'Round', number: true, of: (e) => count(e.round)},
	{label: 'Shard', number: true, of: (e) => count(e.shard)},
	{label: 'Hash', term: 'entry', of: (e) => e.hash, put: showHash},
	{label: 'Update', term: 'update', of: (e) => e.update, put: showHash},
	{label: 'State', term: 'state-hash', of: (e) => e.state, put: showHash},
	{label: 'From', term: 'from', of: (e) => e.contributions, put(cell, list) {
		const numbers = list.map((c) => c.peer);
		cell.textContent = !numbers.length ? 'nobody' : numbers.length > 8
			? `${numbers.slice(0, 8).join(', ')} and ${count(numbers.length - 8)} more` : numbers.join(', ');
		cell.title = list.map((c) => `${nameOf(c.peer)}: ${count(c.tokens)} tokens`).join('\n');
	}},
	{label: 'Size', term: 'size', number: true, of: (e) => short(e.bytes, 'B')},
];

const countColumns = [
	{label: 'Code', of: (c) => [c.code, c.name],
		put: (cell, [code, name]) => two(cell, name.replaceAll('_', ' '), `code ${code}`)},
	{label: 'What it means', of: (c) => c.text},
	{label: 'Count', number: true, of: (c) => count(c.count)},
];

const refusalColumns = [
	{label: 'When', of: (r) => moment(r.at_s)},
	{label: 'From', kind: 'name', of: (r) => known(r.member) ? nameOf(r.member) : 'somebody unknown',
		put: (cell, name) => cell.replaceChildren(make('bdi', name))},
	{label: 'What', of: (r) => r.what + (r.round ? ` of round ${r.round}` : '')},
	{label: 'Code', of: (r) => r.name.replaceAll('_', ' ')},
	{label: 'Why', of: (r) => r.text},
];

let showPeers;
const peersTable = () => {
	showPeers = table('peers-table', 'Peers', token ? [...peerColumns, removeColumn] : peerColumns,
		'Nobody has joined yet.');
};
const showRounds = table('rounds-table', 'Rounds', roundColumns, 'No round has been closed yet.');
const showLedger = table('ledger-table', 'Ledger entries', ledgerColumns, 'Nothing has been applied yet.');
const showCounts = table('counts-table', 'Refusals by code', countColumns, 'Nothing has been refused.');
const showRefusals = table('refusals-table', 'The newest refusals', refusalColumns, 'Nothing has been refused.');
peersTable();

/* ---- tiles: [figure, unit, line below, exact value] of the overview */

const missing = (o) => Math.max(0, o.run.peers_min - o.members.ready - o.members.working - o.members.in);
const elapsed = () => document.body.classList.contains('connected') ? (performance.now() - run.at) / 1000 : 0;
const clock = (o) => o.state === 'open' && known(o.round_s) ? o.round_s + elapsed() : null;

const tiles = [
	{id: 'loss', label: 'Validation loss', term: 'loss', of: (o) => {
		const l = o.loss && o.loss.nats_per_byte, s = o.start_loss && o.start_loss.nats_per_byte;
		return [fixed(l, 3), 'nats/byte', known(s) ? `${fixed(s, 2)} at the start` : 'not measured yet', l];
	}},
	{id: 'tokens', label: 'Tokens', term: 'tokens', of: (o) =>
		[short(o.tokens), '', `of ${short(o.total_tokens)}`, o.tokens]},
	{id: 'speed', label: 'Tokens per second', term: 'speed', of: (o) =>
		[short(o.tokens_per_s), '', known(o.utilisation) ? `${percent(o.utilisation)} of what peers can do` : '',
			o.tokens_per_s]},
	{id: 'round', label: 'Round', term: 'round', of: (o) => {
		const t = clock(o), most = o.run.mode === 'timed' ? ` of ${span(o.run.seconds)}` : '';
		return [count(o.round), '', known(t) ? `open for ${span(Math.floor(t) || t)}${most}` : 'none is open', o.round];
	}},
	{id: 'peers', label: 'Peers working', term: 'peers', of: (o) => {
		const m = o.members, n = missing(o);
		return [count(m.working + m.in), `of ${count(m.total)}`,
			`${count(m.ready)} ready, ${count(n)} missing`, m.working + m.in];
	}},
	{id: 'up', label: 'Sent per parameter', term: 'up', of: (o) =>
		[fixed(o.bits_per_param_up, 3), known(o.bits_per_param_up) ? 'bits' : '', `${short(o.bytes_up, 'B')} in all`,
			o.bits_per_param_up]},
	{id: 'down', label: 'Received per parameter', term: 'down', of: (o) =>
		[fixed(o.bits_per_param_down, 3), known(o.bits_per_param_down) ? 'bits' : '',
			`${short(o.bytes_down, 'B')} in all`, o.bits_per_param_down]},
	{id: 'refusals', label: 'Refusals', term: 'refusals', of: (o) =>
		[count(o.refusals), '', o.refusals ? 'see below for the reasons' : '', o.refusals]},
];

for (const t of tiles) {
	const box = make('div', undefined, {class: 'tile', id: `tile-${t.id}`, title: meaning(t.term)});
	t.figure = make('span', DASH, {class: 'number'});
	t.unit = make('span', '', {class: 'unit'});
	t.beside = make('dd', '', {class: 'beside'});
	const figure = make('dd', undefined, {class: 'figure'});
	figure.append(t.figure, ' ', t.unit);
	box.append(make('dt', t.label), figure, t.beside);
	$('tiles').append(box);
}

function text(element, value)
{
	if (element.textContent !== value)
		element.textContent = value;
}

function showTiles(o)
{
	for (const t of tiles) {
		const [figure, unit, beside, value] = t.of(o);
		text(t.figure, figure);
		text(t.unit, unit);
		text(t.beside, beside);
		t.figure.dataset.value = known(value) ? value : '';
	}
}

function headlineOf(o)
{
	const words = {waiting: 'Waiting', open: 'Training', closing: 'Applying the round', finishing: 'Finishing',
		finished: 'Finished'};
	const state = o.paused && o.state === 'waiting' ? 'paused' : o.state;
	$('state').dataset.state = state;
	text($('state'), state === 'paused' ? 'Paused' : words[state] || state);
	text($('run-name'), o.run.name);
	text($('reason'), o.reason);
	document.title = `${o.run.name}: ${$('state').textContent}`;
	const alerts = o.alerts || [];
	$('alerts').hidden = !alerts.length;
	$('alerts').replaceChildren(...alerts.map((a) => make('li', a)));
}

function showOverview()
{
	const o = run.overview;
	headlineOf(o);
	showTiles(o);
	$('progress').max = o.total_tokens;
	$('progress').value = Math.min(o.tokens, o.total_tokens);
	text($('progress-done'), `${count(o.tokens)} of ${count(o.total_tokens)} tokens, ` +
		percent(o.tokens / o.total_tokens));
	text($('progress-left'), o.state === 'finished' ? '' : known(o.eta_s) ? `about ${span(o.eta_s)} left` : '');
	const r = o.run;
	if ($('facts').dataset.of !== r.id) {
		$('facts').dataset.of = r.id;
		facts($('facts'), [`${short(r.params)} parameters in ${plural(r.shards, 'shard')}`,
			`rounds of ${r.mode === 'fixed' ? plural(r.steps, 'step') : span(r.seconds)}`,
			`at least ${plural(r.peers_min, 'peer')}`, `rule ${r.rule}`, `codec ${r.codec}`,
			'run ', hashButton(r.id)].filter(Boolean));
	}
	if ($('ledger-head').dataset.of !== o.head.hash) {
		$('ledger-head').dataset.of = o.head.hash;
		facts($('ledger-head'), [`${plural(o.head.sequence, 'entry').replace('entrys', 'entries')}`, 'head ',
			hashButton(o.head.hash), 'state of the whole model ', hashButton(o.state_hash)]);
	}
	text($('about'), `shoal ${o.version}, serving for ${span(o.uptime_s)}`);
	$('pause').disabled = o.paused;
	$('resume').disabled = !o.paused;
}

/* ---- the chart */

let chart = null, axis = 'tokens';
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Yardsticks as dashed lines with their names at the right. */
const yardstickLines = {id: 'yardsticks', beforeDatasetsDraw({ctx, chartArea, scales}) {
	ctx.save();
	ctx.font = `12px ${getComputedStyle(document.body).fontFamily}`;
	ctx.textAlign = 'right';
	ctx.fillStyle = colour('--quiet');
	ctx.strokeStyle = colour('--quiet');
	for (const [name, value] of Object.entries(run.yardsticks || {})) {
		const y = scales.y.getPixelForValue(value);
		if (!known(value) || y < chartArea.top || y > chartArea.bottom)
			continue;
		ctx.globalAlpha = .6;
		ctx.setLineDash([3, 4]);
		ctx.beginPath();
		ctx.moveTo(chartArea.left, y);
		ctx.lineTo(chartArea.right, y);
		ctx.stroke();
		ctx.globalAlpha = 1;
		ctx.fillText(`${name} ${value.toFixed(2)}`, chartArea.right - 4, y - 5);
	}
	ctx.restore();
}};

function curve(label, name, more)
{
	return {label, data: [], borderColor: colour(name), backgroundColor: colour(name), borderWidth: 2,
		pointRadius: 0, pointHitRadius: 12, ...more};
}

function makeChart()
{
	const scale = (title, words) => ({type: 'linear', grid: {color: colour('--line'), drawBorder: false},
		ticks: {color: colour('--quiet'), maxRotation: 0, callback: words},
		title: {display: Boolean(title), text: title, color: colour('--quiet')}});
	if (chart)
		chart.destroy();
	chart = new Chart($('chart'), {
		type: 'line',
		data: {datasets: [curve('validation', '--accent', {pointRadius: 3}),
			curve('training', '--second', {borderWidth: 1.5, order: 1})]},
		options: {animation: false, maintainAspectRatio: false, normalized: true,
			interaction: {mode: 'nearest', axis: 'x', intersect: false},
			scales: {x: scale('tokens', (v) => axis === 'time' ? span(v) : short(v)),
				y: scale('', (v) => fixed(v, 1))},
			plugins: {legend: {position: 'bottom', labels: {color: colour('--quiet'), boxWidth: 14,
				boxHeight: 2, filter: (item, data) => data.datasets[item.datasetIndex].data.length > 0}},
			tooltip: {callbacks: {title: (items) => items.length
				? (axis === 'time' ? `after ${span(items[0].parsed.x)}` : `${count(items[0].parsed.x)} tokens`) : '',
			label: (item) => `${item.dataset.label} ${fixed(item.parsed.y, 3)} nats per byte`}}}},
		plugins: [yardstickLines],
	});
}

function showChart()
{
	if (!chart)
		makeChart();
	const points = [...run.loss.values()].sort((a, b) => a.round - b.round);
	const rounds = [...run.rounds.values()].filter((r) => known(r.nats_per_byte)).sort((a, b) => a.round - b.round);
	const start = Math.min(...points.map((p) => p.at_s), ...rounds.map((r) => r.closed_s));
	const [validation, training] = chart.data.datasets;
	validation.data = points.map((p) => ({x: axis === 'time' ? p.at_s - start : p.tokens, y: p.nats_per_byte}));
	training.data = rounds.map((r) => ({x: axis === 'time' ? r.closed_s - start : r.total_tokens, y: r.nats_per_byte}));
	chart.options.scales.x.title.text = axis === 'time' ? 'time since the first measurement' : 'tokens';
	const lowest = [...validation.data, ...training.data].map((p) => p.y);
	if (run.yardsticks)
		lowest.push(run.yardsticks.trigram);
	chart.options.scales.y.suggestedMin = Math.min(...lowest) - .1;
	chart.update('none');
	const last = points[points.length - 1];
	$('chart-empty').hidden = points.length + rounds.length > 0;
	$('chart').parentElement.hidden = points.length + rounds.length === 0;
	$('chart').dataset.points = points.length;
	if (last)
		$('chart').setAttribute('aria-label', `Loss against ${axis}: ${fixed(points[0].nats_per_byte, 2)} at first, ` +
			`${fixed(last.nats_per_byte, 3)} nats per byte after ${short(last.tokens)} tokens`);
}

for (const b of document.querySelectorAll('[data-axis]'))
	b.addEventListener('click', () => {
		axis = b.dataset.axis;
		for (const other of document.querySelectorAll('[data-axis]'))
			other.setAttribute('aria-pressed', String(other === b));
		showChart();
	});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
	makeChart();
	showChart();
});

/* ---- views: drawn at most once a frame, whatever has changed */

function drawPeers()
{
	const wanted = $('peers-find').value.trim().toLowerCase();
	const all = [...run.peers.values()].sort((a, b) => a.number - b.number);
	const found = all.filter((p) => !wanted || String(p.number) === wanted || p.name.toLowerCase().includes(wanted));
	showPeers(found.slice(0, PEERS_SHOWN), (p) => p.number);
	text($('peers-count'), all.length ? count(all.length) : '');
	$('peers-more').hidden = found.length <= PEERS_SHOWN;
	text($('peers-more'), `${count(found.length - PEERS_SHOWN)} more: find one by its name or number.`);
}

function drawRounds()
{
	const newest = [...run.rounds.values()].sort((a, b) => b.round - a.round).slice(0, ROWS);
	showRounds(newest, (r) => r.round);
}

function drawRefusals()
{
	const r = run.refusals;
	showCounts([...r.counts].sort((a, b) => b.count - a.count), (c) => c.code);
	showRefusals(r.recent.slice(0, ROWS), (x) => `${x.at_s} ${x.member} ${x.round} ${x.shard} ${x.text}`);
	$('refusals-table').parentElement.hidden = !r.recent.length;
	text($('refusals-count'), r.total ? count(r.total) : '');
}

const draw = {overview: showOverview, peers: drawPeers, rounds: drawRounds, chart: showChart,
	ledger: () => showLedger(run.ledger, (e) => e.sequence), refusals: drawRefusals};
const changed = new Set();

function redraw(...views)
{
	if (!changed.size)
		requestAnimationFrame(() => {
			const now = [...changed];
			changed.clear();
			if (run.overview)
				now.forEach((view) => draw[view]());
		});
	views.forEach((view) => changed.add(view));
}
$('peers-find').addEventListener('input', () => redraw('peers'));

/* ---- taking in */

/* The sentence of a refused request. */
async function failure(reply)
{
	const body = await reply.json().catch(() => null);
	return new Error(body && body.text ? body.text : `the coordinator answered ${reply.status} ${reply.statusText}`);
}

async function get(path)
{
	const reply = await fetch(path, {cache: 'no-store'});
	if (!reply.ok)
		throw await failure(reply);
	return reply.json();
}

function takeOverview(o)
{
	/* Another program is behind the page now: it brings its own page. */
	if (run.overview && run.overview.version !== o.version)
		location.reload();
	run.overview = o;
	run.at = performance.now();
	redraw('overview');
}

const byKey = (rows, key) => new Map(rows.map((row) => [row[key], row]));

async function loadLedger()
{
	run.ledger = (await get(`/api/v1/ledger.json?full=1&limit=${ROWS}`)).records;
	redraw('ledger');
}

async function loadState()
{
	const [o, p] = await Promise.all([get('/api/v1/overview.json'), get('/api/v1/peers.json'), loadLedger()]);
	takeOverview(o);
	run.peers = byKey(p.peers, 'number');
	redraw('peers');
}

async function loadAll()
{
	const [r, l, f] = await Promise.all([get(`/api/v1/rounds.json?limit=1000`), get('/api/v1/loss.json'),
		get('/api/v1/refusals.json'), loadState()]);
	run.rounds = byKey(r.rounds, 'round');
	run.loss = byKey(l.points, 'round');
	run.yardsticks = l.yardsticks;
	run.refusals = f;
	redraw('rounds', 'chart', 'refusals');
}

function takeRefusal(r)
{
	const known_code = run.refusals.counts.find((c) => c.code === r.code);
	if (known_code)
		known_code.count++;
	run.refusals.total++;
	run.refusals.recent = [r, ...run.refusals.recent].slice(0, 200);
	redraw('refusals', 'peers');
	/* A code seen for the first time comes with its meaning from the view. */
	if (!known_code)
		return get('/api/v1/refusals.json').then((f) => {
			run.refusals = f;
			redraw('refusals', 'peers');
		});
	return null;
}

const take = {
	overview: takeOverview,
	peer(p) {
		run.peers.set(p.number, p);
		redraw('peers');
	},
	round(r) {
		run.rounds.set(r.round, r);
		redraw('rounds', 'chart');
		return loadLedger();
	},
	loss(l) {
		run.loss.set(l.round, l);
		redraw('chart');
	},
	refusal: takeRefusal,
	reset: loadAll,
};

/* ---- the stream */

const stream = {last: '', abort: null, heard: 0, wait: RETRY_LEAST_S, retry: null};

/* One event: lines up to an empty one. */
async function takeEvent(lines)
{
	const fields = {event: 'message', data: ''};
	for (const line of lines) {
		const [, name, value] = /^(\w+): ?(.*)$/.exec(line) || [];
		if (name)
			fields[name] = name === 'data' && fields.data ? `${fields.data}\n${value}` : value;
	}
	if (take[fields.event])
		await take[fields.event](JSON.parse(fields.data));
	if (fields.id)
		stream.last = fields.id;
}

async function readStream(body)
{
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let left = '';
	for (;;) {
		const {value, done} = await reader.read();
		if (done)
			throw new Error('the coordinator has closed the stream');
		stream.heard = performance.now();
		const parts = (left + value).replaceAll('\r', '').split('\n\n');
		left = parts.pop();
		for (const part of parts)
			await takeEvent(part.split('\n'));
	}
}

function connected()
{
	clearInterval(stream.retry);
	stream.retry = null;
	stream.wait = RETRY_LEAST_S;
	document.body.className = 'connected';
	$('banner').hidden = true;
	text($('live'), 'live');
}

function lost(cause)
{
	const wait = stream.wait * (.75 + .5 * Math.random());
	const at = performance.now() + 1000 * wait;
	const seen = new Date();
	stream.wait = Math.min(2 * stream.wait, RETRY_MOST_S);
	if (!document.body.classList.contains('stale') && run.overview)
		text($('banner-age'), `The figures are from ${seen.toLocaleTimeString('en-GB')}.`);
	document.body.className = 'stale';
	$('banner').hidden = false;
	text($('banner-cause'), `Disconnected: ${cause}.`);
	text($('live'), 'disconnected');
	const tick = () => {
		const left = (at - performance.now()) / 1000;
		text($('banner-next'), left > 0 ? `Trying again in ${Math.ceil(left)} s.` : 'Trying now.');
		if (left <= 0)
			listen();
	};
	stream.retry = setInterval(tick, 250);
	tick();
}

async function listen()
{
	clearInterval(stream.retry);
	stream.abort = new AbortController();
	stream.heard = performance.now();
	try {
		const headers = stream.last ? {'Last-Event-ID': stream.last} : {};
		const reply = await fetch('/api/v1/events', {headers, cache: 'no-store', signal: stream.abort.signal});
		if (!reply.ok)
			throw await failure(reply);
		/* Opened before the views are loaded, so that nothing falls between them. */
		await (stream.last ? loadState() : loadAll());
		connected();
		await readStream(reply.body);
	} catch (e) {
		const silent = stream.abort.signal.aborted;
		const network = e instanceof TypeError;
		lost(silent ? `nothing was heard for ${SILENT_S} s` : network ? 'the coordinator does not answer' : e.message);
	}
}

setInterval(() => {
	const quiet = performance.now() - stream.heard;
	if (document.body.classList.contains('connected')) {
		if (quiet > 1000 * SILENT_S)
			stream.abort.abort();
		redraw('overview');
	}
}, 1000);
$('banner-now').addEventListener('click', () => {
	if (stream.retry)
		listen();
});

/* ---- the operator */

function say(sentence, wrong)
{
	text($('said'), sentence);
	$('said').classList.toggle('wrong', Boolean(wrong));
}

async function control(path, body)
{
	const headers = {Authorization: `Bearer ${token}`, 'Content-Type': 'application/json'};
	const reply = await fetch(path, body ? {method: 'POST', headers, body: JSON.stringify(body)} : {headers});
	if (!reply.ok)
		throw await failure(reply);
	return reply.json();
}

/* Does it and says what came of it. */
async function order(what, done)
{
	try {
		say(done(await what()));
		return true;
	} catch (e) {
		say(e instanceof TypeError ? 'The coordinator does not answer.' : e.message, true);
		return false;
	}
}

function unlocked(open)
{
	$('unlock').hidden = open;
	$('controls').hidden = !open;
	$('token').value = '';
	$('invite-made').hidden = true;
	peersTable();
	redraw('peers');
}

$('unlock').addEventListener('submit', async (event) => {
	event.preventDefault();
	token = $('token').value.trim();
	if (await order(() => control('/api/v1/invites.json'), () => 'Unlocked.'))
		unlocked(true);
	else
		token = '';
});
$('lock').addEventListener('click', () => {
	token = '';
	unlocked(false);
	say('The token is forgotten.');
});
$('pause').addEventListener('click', () => order(() => control('/api/v1/control/pause', {}),
	() => 'Paused: the open round is finished, no new one opens.'));
$('resume').addEventListener('click', () => order(() => control('/api/v1/control/resume', {}), () => 'Resumed.'));

$('invite').addEventListener('submit', (event) => {
	event.preventDefault();
	const uses = Number($('invite-uses').value), hours = Number($('invite-hours').value);
	order(() => control('/api/v1/control/invite', {uses, expires_s: 3600 * hours}), (made) => {
		text($('invite-link'), made.link);
		$('invite-made').hidden = false;
		return `An invite for ${plural(uses, 'peer')}, good for ${plural(hours, 'hour')}: give it to those you trust.`;
	});
});
$('invite-copy').addEventListener('click', () => order(() => navigator.clipboard.writeText($('invite-link').textContent),
	() => 'Copied.'));

function removePeer(p)
{
	const dialog = $('sure');
	text($('sure-text'), `Remove ${p.name} (${p.number}) from the run? It keeps its tokens and may not come back.`);
	dialog.returnValue = '';
	dialog.onclose = () => {
		if (dialog.returnValue === 'yes')
			order(() => control('/api/v1/control/kick', {member: p.number}), () => `${p.name} is removed.`);
	};
	dialog.showModal();
}

listen();
