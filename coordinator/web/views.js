/* What is known of the run, and how it is shown. */

import {$, DASH, count, facts, fixed, hash, known, make, meaning, moment, percent, plural, short, span, speed, table,
	text} from '/words.js';
import {showLoss} from '/loss.js';
import {showTopology} from '/topology.js';

export const ROWS = 50;       /* of rounds and entries that are kept at hand */
const ROWS_FEW = 10;          /* of them shown at first */
const PEERS_SHOWN = 100;

/* As the API gives them; peers, rounds and losses by their number. */
export const run = {overview: null, at: 0, peers: new Map(), rounds: new Map(), loss: new Map(), yardsticks: null,
	topology: null, ledger: [], refusals: {total: 0, counts: [], recent: []}};

const nameOf = (number) => {
	const peer = run.peers.get(number);
	return peer ? `${peer.name} (${number})` : `peer ${number}`;
};
const spaced = (name) => name.replaceAll('_', ' ');

/* ---- tables */

/* A main line, and a quiet one below it. */
function two(cell, first, second)
{
	const box = make('span');
	box.append(first);
	if (second)
		box.append(make('span', second, {class: 'under'}));
	cell.replaceChildren(box);
}

const peerColumns = [
	{label: 'Peer', kind: 'name', of: (p) => [p.name, p.number, p.version, p.joined_s],
		put(cell, [name, number, version, joined]) {
			two(cell, make('bdi', name), `number ${number}`);
			cell.title = `version ${version || 'unknown'}, on the roster since ${moment(joined)}`;
		}},
	{label: 'State', kind: 'wide', term: 'state', of: (p) => [p.removed ? 'removed' : p.state, p.reason || ''],
		put: (cell, [state, reason]) =>
			two(cell, make('span', state, {class: 'state', 'data-state': state}), reason)},
	{label: 'Round', term: 'steps', of: (p) => [p.steps_done, p.steps], put(cell, [done, steps]) {
		const box = make('span', steps ? `${count(done)} of ${count(steps)}` : DASH);
		if (steps)
			box.append(make('progress', undefined, {max: steps, value: Math.min(done, steps),
				'aria-label': 'steps done'}));
		cell.replaceChildren(box);
	}},
	{label: 'Tokens/s', term: 'peer-speed', number: true, of: (p) => p.tokens_per_s ? speed(p.tokens_per_s) : DASH},
	{label: 'RTT', term: 'rtt', number: true,
		of: (p) => known(p.rtt_ms) ? `${fixed(p.rtt_ms, p.rtt_ms < 9.95 ? 1 : 0)} ms` : DASH},
	{label: 'Up', term: 'bytes', number: true, of: (p) => short(p.bytes_up, 'B')},
	{label: 'Down', term: 'bytes', number: true, of: (p) => short(p.bytes_down, 'B')},
	{label: 'Given', term: 'given', number: true, rare: true, of: (p) => short(p.bytes_given, 'B')},
	{label: 'Taken', term: 'given', number: true, rare: true, of: (p) => short(p.bytes_taken, 'B')},
	{label: 'Tokens', term: 'share', number: true, of: (p) => p.tokens, put(cell, tokens) {
		cell.textContent = short(tokens);
		cell.title = `${count(tokens)} tokens`;
		cell.dataset.value = tokens;
	}},
	{label: 'Share', term: 'share', number: true, of: (p) => percent(p.share)},
	{label: 'Refused', term: 'refused', number: true, of: (p) => {
		const last = run.refusals.recent.find((r) => r.member === p.number);
		return [p.refusals, last ? last.name : '', last ? last.text : ''];
	}, put(cell, [n, name, sentence]) {
		two(cell, count(n), n ? spaced(name) : '');
		cell.title = sentence;
	}},
];

const removeColumn = (remove) => ({label: 'Operator', of: (p) => [p.number, p.removed], put(cell, [number, removed], p) {
	cell.replaceChildren();
	if (removed)
		return;
	const b = make('button', 'Remove', {type: 'button', 'aria-label': `Remove peer ${number}`});
	b.addEventListener('click', () => remove(p));
	cell.append(b);
}});

const roundColumns = [
	{label: 'Round', of: (r) => count(r.round)},
	{label: 'In', term: 'in', number: true, of: (r) => count(r.members)},
	{label: 'Dropped', term: 'in', number: true, rare: true, of: (r) => count(r.dropped)},
	{label: 'Tokens', term: 'round-tokens', number: true, of: (r) => count(r.tokens)},
	{label: 'Took', term: 'took', number: true, of: (r) => span(r.took_s)},
	{label: 'Up', term: 'round-bytes', number: true, rare: true, of: (r) => short(r.bytes_up, 'B')},
	{label: 'Down', term: 'round-bytes', number: true, rare: true, of: (r) => short(r.bytes_down, 'B')},
	{label: 'Merged', term: 'merged', number: true, rare: true, of: (r) => count(r.merged)},
	{label: 'Closed', number: true, of: (r) => moment(r.closed_s)},
];

const showHash = (cell, hex) => cell.replaceChildren(hash(hex));
const FEW_NAMES = 8;
const ledgerColumns = [
	{label: 'Entry', term: 'entry', of: (e) => count(e.sequence)},
	{label: 'Round', number: true, of: (e) => count(e.round)},
	{label: 'Shard', number: true, of: (e) => count(e.shard)},
	{label: 'Hash', term: 'entry', rare: true, of: (e) => e.hash, put: showHash},
	{label: 'Update', term: 'update', rare: true, of: (e) => e.update, put: showHash},
	{label: 'State', term: 'state-hash', of: (e) => e.state, put: showHash},
	{label: 'From', term: 'from', of: (e) => e.contributions, put(cell, list) {
		const numbers = list.map((c) => c.peer), more = numbers.length - FEW_NAMES;
		cell.textContent = !numbers.length ? 'nobody'
			: numbers.slice(0, FEW_NAMES).join(', ') + (more > 0 ? ` and ${count(more)} more` : '');
		cell.title = list.map((c) => `${nameOf(c.peer)}: ${count(c.tokens)} tokens`).join('\n');
	}},
	{label: 'Size', term: 'size', number: true, rare: true, of: (e) => short(e.bytes, 'B')},
];

const countColumns = [
	{label: 'Code', of: (c) => [c.name, c.code], put: (cell, [name, code]) => two(cell, spaced(name), `code ${code}`)},
	{label: 'What it means', of: (c) => c.text},
	{label: 'Count', number: true, of: (c) => count(c.count)},
];

const refusalColumns = [
	{label: 'When', of: (r) => moment(r.at_s)},
	{label: 'From', kind: 'name', of: (r) => known(r.member) ? nameOf(r.member) : 'somebody unknown',
		put: (cell, name) => cell.replaceChildren(make('bdi', name))},
	{label: 'What', of: (r) => r.what + (r.round ? ` of round ${count(r.round)}` : '')},
	{label: 'Code', of: (r) => spaced(r.name)},
	{label: 'Why', kind: 'wide', of: (r) => r.text},
];

let showPeers;
/* With a button to remove a peer when remove is given. */
export function operatorPeers(remove)
{
	showPeers = table('peers-table', 'Peers', remove ? [...peerColumns, removeColumn(remove)] : peerColumns,
		'Nobody has joined yet.');
	redraw('peers');
}
const showRounds = table('rounds-table', 'Rounds', roundColumns, 'No round has been closed yet.');
const showLedger = table('ledger-table', 'Ledger entries', ledgerColumns, 'Nothing has been applied yet.');
const showCounts = table('counts-table', 'Refusals by code', countColumns, 'Nothing has been refused.');
const showRefusals = table('refusals-table', 'The newest refusals', refusalColumns, 'Nothing has been refused.');

/* ---- tiles: [figure, unit, line below, exact value] of the overview */

const over = (o) => o.state === 'finishing' || o.state === 'finished';
const missing = (o) => over(o) ? 0 : Math.max(0, o.run.peers_min - o.members.ready - o.members.working - o.members.in);
/* Since the overview came; the clock of a page that hears nothing stands still. */
const passed = () => document.body.classList.contains('connected') ? (performance.now() - run.at) / 1000 : 0;

const tiles = [
	{id: 'loss', label: 'Validation loss', term: 'loss', of: (o) => {
		const l = o.loss && o.loss.nats_per_byte, s = o.start_loss && o.start_loss.nats_per_byte;
		return [fixed(l, 3), known(l) ? 'nats' : '', known(s) ? `per byte, from ${fixed(s, 2)}` : 'not measured yet', l];
	}},
	{id: 'tokens', label: 'Tokens', term: 'tokens', of: (o) => [short(o.tokens), '', `of ${short(o.total_tokens)}`,
		o.tokens]},
	{id: 'speed', label: 'Tokens per second', term: 'speed', of: (o) => [speed(o.tokens_per_s), '',
		known(o.utilisation) ? `utilisation ${percent(o.utilisation)}` : 'over the last rounds', o.tokens_per_s]},
	{id: 'delay', label: 'Delay', term: 'delay', rare: (o) => !o.delays.some((d) => known(d.seconds)), of: (o) => {
		const all = o.delays.filter((d) => known(d.seconds)), most = Math.max(0, ...all.map((d) => d.share));
		const each = all.map((d) => `shard ${d.shard} ${fixed(d.seconds, 2)} s`).join(', ');
		return [fixed(most, 3), 'of a round', all.length > 4 ? `${all.length} shards` : each, most];
	}},
	{id: 'round', label: 'Round', term: 'round', of: (o) => {
		const most = o.run.mode === 'timed' ? ` of ${span(o.run.seconds)}` : '';
		const t = known(o.round_s) ? Math.floor(o.round_s + passed()) : null;
		const words = t ? `open for ${span(t)}${most}` : known(t) ? 'just opened' : over(o) ? 'was the last' : 'not open';
		const round = over(o) ? o.head.round : o.round;
		return [count(round), '', words, round];
	}},
	{id: 'peers', label: 'Peers working', term: 'peers', of: (o) => {
		const m = o.members, working = m.working + m.in;
		return [count(working), `of ${count(m.total)}`, `${count(m.ready)} ready, ${count(missing(o))} missing`, working];
	}},
	{id: 'up', label: 'Sent per parameter', term: 'up', of: (o) => [fixed(o.bits_per_param_up, 3),
		known(o.bits_per_param_up) ? 'bits' : '', `${short(o.bytes_up, 'B')} in all`, o.bits_per_param_up]},
	{id: 'down', label: 'Received per parameter', term: 'down', of: (o) => [fixed(o.bits_per_param_down, 3),
		known(o.bits_per_param_down) ? 'bits' : '', `${short(o.bytes_down, 'B')} in all`, o.bits_per_param_down]},
	{id: 'egress', label: 'Sent by the coordinator', term: 'egress', of: (o) => [short(o.egress.bits_per_s, 'bit/s'), '',
		(known(o.egress.max_bits_per_s) ? `at most ${short(o.egress.max_bits_per_s, 'bit/s')}, ` : '') +
		`${short(o.egress.bytes, 'B')} in all`, o.egress.bits_per_s]},
	{id: 'refusals', label: 'Refusals', term: 'refusals', of: (o) => [count(o.refusals), '',
		o.refusals ? 'reasons below' : 'nothing was refused', o.refusals]},
];

for (const t of tiles) {
	const box = make('div', undefined, {class: 'tile', id: `tile-${t.id}`, title: meaning(t.term)});
	const figure = make('dd', undefined, {class: 'figure'});
	t.figure = make('span', DASH);
	t.unit = make('span', '', {class: 'unit'});
	t.beside = make('dd', '', {class: 'beside'});
	figure.append(t.figure, ' ', t.unit);
	box.append(make('dt', t.label), figure, t.beside);
	t.box = box;
	$('tiles').append(box);
}

function showTiles(o)
{
	for (const t of tiles) {
		t.box.hidden = Boolean(t.rare && t.rare(o));
		const [figure, unit, beside, value] = t.of(o);
		text(t.figure, figure);
		text(t.unit, unit);
		text(t.beside, beside);
		t.figure.dataset.value = known(value) ? value : '';
	}
}

/* ---- the overview */

const STATES = {waiting: 'Waiting', paused: 'Paused', open: 'Training', closing: 'Applying the round',
	finishing: 'Finishing', finished: 'Finished'};

function showHeadline(o)
{
	const state = o.paused && o.state === 'waiting' ? 'paused' : o.state;
	$('state').dataset.state = state;
	text($('state'), STATES[state] || state);
	text($('run-name'), o.run.name);
	text($('reason'), o.reason);
	document.title = `${o.run.name}: ${STATES[state] || state}`;
	$('alerts').hidden = !o.alerts.length;
	if ($('alerts').dataset.of !== o.alerts.join('\n')) {
		$('alerts').dataset.of = o.alerts.join('\n');
		$('alerts').replaceChildren(...o.alerts.map((a) => make('li', a)));
	}
}

/* Lines with buttons in them are made again only when what they say has changed. */
function showFacts(id, of, parts)
{
	if ($(id).dataset.of === of)
		return;
	$(id).dataset.of = of;
	facts($(id), parts);
}

function showOverview()
{
	const o = run.overview, r = o.run;
	showHeadline(o);
	showTiles(o);
	$('progress').max = o.total_tokens;
	$('progress').value = Math.min(o.tokens, o.total_tokens);
	text($('progress-done'), `${count(o.tokens)} of ${count(o.total_tokens)} tokens, ${percent(Math.min(1, o.tokens / o.total_tokens))}`);
	text($('progress-left'), o.eta_s ? `about ${span(Math.ceil(o.eta_s))} left` : '');
	showFacts('facts', r.id, [`${short(r.params)} parameters in ${plural(r.shards, 'shard')}`,
		`rounds of ${r.mode === 'fixed' ? plural(r.steps, 'step') : span(r.seconds)}`,
		`at least ${plural(r.peers_min, 'peer')}`, `rule ${r.rule}`, `codec ${r.codec}`, ['run ', hash(r.id)]]);
	showFacts('ledger-head', o.head.hash, [plural(o.head.sequence, 'entry', 'entries'), ['head ', hash(o.head.hash)],
		['state of the whole model ', hash(o.state_hash)]]);
	text($('about'), `shoal ${o.version}, serving for ${span(Math.floor(o.uptime_s))}`);
	$('pause').disabled = o.paused;
	$('resume').disabled = !o.paused;
}

/* ---- the others */

function showAllPeers()
{
	const wanted = $('peers-find').value.trim().toLowerCase();
	const all = [...run.peers.values()].sort((a, b) => a.number - b.number);
	const found = all.filter((p) => !wanted || String(p.number) === wanted || p.name.toLowerCase().includes(wanted));
	showPeers(found.slice(0, PEERS_SHOWN), (p) => p.number);
	text($('peers-count'), all.length ? count(all.length) : '');
	$('peers-more').hidden = found.length <= PEERS_SHOWN;
	text($('peers-more'), `${count(found.length - PEERS_SHOWN)} more: find one by its name or number.`);
}
$('peers-find').addEventListener('input', () => redraw('peers'));

/* The first few of a long table, and a button for the others. */
function few(id, rows, show)
{
	const b = $(`${id}-all`), all = b.getAttribute('aria-expanded') === 'true';
	b.hidden = rows.length <= ROWS_FEW;
	text(b, all ? `Show ${ROWS_FEW}` : `Show ${count(rows.length)}`);
	show(all ? rows : rows.slice(0, ROWS_FEW));
}
for (const id of ['rounds', 'ledger', 'refusals'])
	$(`${id}-all`).addEventListener('click', (event) => {
		const b = event.currentTarget;
		b.setAttribute('aria-expanded', String(b.getAttribute('aria-expanded') !== 'true'));
		redraw(id);
	});

function showAllRounds()
{
	const newest = [...run.rounds.values()].sort((a, b) => b.round - a.round).slice(0, ROWS);
	few('rounds', newest, (rows) => showRounds(rows, (r) => r.round));
}

function showAllRefusals()
{
	const r = run.refusals;
	showCounts([...r.counts].sort((a, b) => b.count - a.count), (c) => c.code);
	few('refusals', r.recent, (rows) => showRefusals(rows, (x) => [x.at_s, x.member, x.round, x.shard, x.text].join()));
	$('refusals-table').parentElement.hidden = !r.recent.length;
	text($('refusals-count'), r.total ? count(r.total) : '');
}

function showChart()
{
	const ascending = (rows) => [...rows.values()].sort((a, b) => a.round - b.round);
	showLoss(ascending(run.loss), ascending(run.rounds).filter((r) => known(r.nats_per_byte)), run.yardsticks);
}

const VIEWS = {overview: showOverview, peers: showAllPeers, rounds: showAllRounds, chart: showChart,
	topology: () => run.topology && showTopology(run.topology, nameOf),
	ledger: () => few('ledger', run.ledger, (rows) => showLedger(rows, (e) => e.sequence)), refusals: showAllRefusals};
const changed = new Set();
let asked = false;

/* Shows the views anew, all together once a frame, from the moment that the run is known. */
export function redraw(...views)
{
	views.forEach((view) => changed.add(view));
	if (asked || !run.overview)
		return;
	asked = true;
	requestAnimationFrame(() => {
		const now = [...changed];
		changed.clear();
		asked = false;
		now.forEach((view) => VIEWS[view]());
	});
}
