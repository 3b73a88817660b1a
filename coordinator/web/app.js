/* The status page: loads every view once, then listens to the stream of events; the operator's
 * controls. */

import {$, plural, text} from '/words.js';
import {ROWS, operatorPeers, redraw, run} from '/views.js';

const RECENT = 200;             /* refusals kept, as the coordinator keeps them */
const SILENT_S = 45;            /* three of the coordinator's pings */
const RETRY_LEAST_S = 1, RETRY_MOST_S = 30;

/* ---- loading */

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

const byKey = (rows, key) => new Map(rows.map((row) => [row[key], row]));

function takeOverview(o)
{
	/* Another program is behind the page now: it brings its own page. */
	if (run.overview && run.overview.version !== o.version)
		location.reload();
	run.overview = o;
	run.at = performance.now();
	redraw('overview');
}

async function loadLedger()
{
	run.ledger = (await get(`/api/v1/ledger.json?full=1&limit=${ROWS}`)).records;
	redraw('ledger');
}

async function loadTopology()
{
	run.topology = await get('/api/v1/topology.json');
	redraw('topology');
}

async function loadRefusals()
{
	run.refusals = await get('/api/v1/refusals.json');
	redraw('refusals', 'peers');
}

/* In pieces, as they are given. */
async function loadPeers()
{
	const peers = [];
	for (let from = 0; from !== null;) {
		const piece = await get(`/api/v1/peers.json?from=${from}`);
		peers.push(...piece.peers);
		from = piece.next ?? null;
	}
	run.peers = byKey(peers, 'number');
	redraw('peers');
}

/* What no event tells, or tells only when it changes. */
async function loadPresent()
{
	const [o] = await Promise.all([get('/api/v1/overview.json'), loadPeers(), loadLedger(),
		loadTopology()]);
	takeOverview(o);
}

async function loadAll()
{
	const [r, l] = await Promise.all([get('/api/v1/rounds.json?limit=1000'), get('/api/v1/loss.json'), loadRefusals(),
		loadPresent()]);
	run.rounds = byKey(r.rounds, 'round');
	run.loss = byKey(l.points, 'round');
	run.yardsticks = l.yardsticks;
	redraw('rounds', 'chart');
}

/* Once more after something has happened, but not for each of many things; one that fails is made
 * good by the next, or by the reconnect. */
function soon(load)
{
	let timer = null;
	return () => {
		timer = timer || setTimeout(() => {
			timer = null;
			load().catch(() => {});
		}, 300);
	};
}
const ledgerSoon = soon(loadLedger), refusalsSoon = soon(loadRefusals), topologySoon = soon(loadTopology);

/* ---- events; any of them may come twice */

const take = {
	overview: takeOverview,
	peer(p) {
		run.peers.set(p.number, p);
		redraw('peers');
	},
	round(r) {
		run.rounds.set(r.round, r);
		redraw('rounds', 'chart');
		ledgerSoon();
		topologySoon();
	},
	loss(l) {
		run.loss.set(l.round, l);
		redraw('chart');
	},
	refusal(r) {
		run.refusals.recent = [r, ...run.refusals.recent].slice(0, RECENT);
		redraw('refusals', 'peers');
		refusalsSoon();
	},
	reset: loadAll,
};

/* One event: the lines up to an empty one.  Comments (": ping") only show that somebody is there. */
async function takeEvent(lines)
{
	const fields = {event: '', data: ''};
	for (const line of lines) {
		const [, name, value] = /^(\w+): ?(.*)$/.exec(line) || [];
		if (name)
			fields[name] = name === 'data' ? fields.data + value : value;
	}
	if (take[fields.event])
		await take[fields.event](JSON.parse(fields.data));
	if (fields.id)
		stream.last = fields.id;
}

/* ---- the stream.  fetch instead of EventSource: a reconnect is ours to time and to explain. */

const stream = {last: '', abort: null, heard: 0, wait: RETRY_LEAST_S, retry: null};

async function readStream(body)
{
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '';
	for (;;) {
		const {value, done} = await reader.read();
		if (done)
			throw new Error('the coordinator has closed the stream');
		stream.heard = performance.now();
		const parts = (rest + value).replaceAll('\r', '').split('\n\n');
		rest = parts.pop();
		for (const part of parts)
			await takeEvent(part.split('\n'));
	}
}

function connected()
{
	stream.wait = RETRY_LEAST_S;
	document.body.className = 'connected';
	$('banner').hidden = true;
	text($('live'), 'live');
}

function lost(cause)
{
	if (run.overview && document.body.className === 'connected')
		text($('banner-age'), `The figures are from ${new Date().toLocaleTimeString('en-GB')}.`);
	document.body.className = 'stale';
	$('banner').hidden = false;
	text($('banner-cause'), `Disconnected: ${cause}.`);
	text($('live'), 'disconnected');
	/* Jitter, so that many pages do not come back at once. */
	const at = performance.now() + 1000 * stream.wait * (.75 + .5 * Math.random());
	stream.wait = Math.min(2 * stream.wait, RETRY_MOST_S);
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
	stream.retry = null;
	stream.abort = new AbortController();
	stream.heard = performance.now();
	try {
		const headers = stream.last ? {'Last-Event-ID': stream.last} : {};
		const reply = await fetch('/api/v1/events', {headers, cache: 'no-store', signal: stream.abort.signal});
		if (!reply.ok)
			throw await failure(reply);
		/* After the stream is open, so that nothing falls between them. */
		await (stream.last ? loadPresent() : loadAll());
		connected();
		await readStream(reply.body);
	} catch (e) {
		lost(stream.abort.signal.aborted ? `nothing was heard for ${SILENT_S} s`
			: e instanceof TypeError ? 'the coordinator does not answer' : e.message);
	}
}

setInterval(() => {
	if (document.body.className !== 'connected')
		return;
	if (performance.now() - stream.heard > 1000 * SILENT_S)
		stream.abort.abort();
	redraw('overview');
}, 1000);
$('banner-now').addEventListener('click', () => {
	if (stream.retry)
		listen();
});

/* ---- the operator */

let token = ''; /* in memory only */

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

/* Does something and says what came of it. */
async function order(what, outcome)
{
	try {
		say(outcome(await what()));
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
	operatorPeers(open ? remove : null);
}

function remove(p)
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
		return `An invite for ${plural(uses, 'peer')}, good for ${plural(hours, 'hour')}.`;
	});
});
$('invite-copy').addEventListener('click', () => order(() => navigator.clipboard.writeText($('invite-link').textContent),
	() => 'Copied.'));

unlocked(false);
say('');
listen();
