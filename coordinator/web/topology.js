/* Who aggregates: groups by latency, ways as they were measured, and what rounds took beside what was
 * predicted. */

import {$, DASH, count, facts, fixed, known, make, plural, short, span, table, text} from '/words.js';

const SHOWN = 100;            /* rows of members */
const DRAWN = 240;            /* members on the map */
const WIDTH = 960, HEIGHT = 520;
const SVG = 'http://www.w3.org/2000/svg';

/* ---- what is known, by number; the coordinator is undefined in the API and here */

const milliseconds = (s) => known(s) && s > 0 ? `${fixed(1000 * s, s < .00995 ? 1 : 0)} ms` : DASH;
const rate = (bytes) => known(bytes) && bytes > 0 ? `${short(8 * bytes, 'bit/s')}` : DASH;
const ago = (s) => known(s) ? `${span(Math.round(s))} ago` : '';

function median(values)
{
	const sorted = values.filter((v) => known(v) && v > 0).sort((a, b) => a - b);
	return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}

/* The way between two, whoever of them measured it. */
function waysOf(pairs)
{
	const ways = new Map();
	for (const p of pairs)
		if (known(p.rtt_s) && p.rtt_s > 0)
			for (const key of [`${p.from} ${p.to}`, `${p.to} ${p.from}`])
				if (!ways.has(key) || ways.get(key).age_s > p.age_s)
					ways.set(key, p);
	return (a, b) => ways.get(`${a} ${b}`);
}

function rolesOf(plan)
{
	const shards = new Map();
	plan.aggregators.forEach((member, shard) => {
		if (known(member))
			shards.set(member, [...shards.get(member) || [], shard]);
	});
	return shards;
}

/* Shards as ranges: "0 to 3, 7". */
function ranges(numbers)
{
	const parts = [];
	for (const n of numbers) {
		const last = parts[parts.length - 1];
		if (last && last[1] === n - 1)
			last[1] = n;
		else
			parts.push([n, n]);
	}
	return parts.map(([a, b]) => a === b ? `${a}` : `${a} to ${b}`).join(', ');
}

function rowsOf(t)
{
	const way = waysOf(t.input.pairs), shards = rolesOf(t.plan);
	const reachable = new Map(t.input.members.map((m) => [m.member, m.reachable]));
	return t.plan.members.map((m) => ({...m, reachable: reachable.get(m.member), shards: shards.get(m.member) || [],
		home: way(m.member, undefined)}));
}

/* ---- the map: the coordinator in the middle, groups around it, farther by latency */

function draw(tag, attributes, title)
{
	const e = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes))
		e.setAttribute(name, value);
	if (title !== undefined) {
		const t = document.createElementNS(SVG, 'title');
		t.textContent = title;
		e.append(t);
	}
	return e;
}

function groupsOf(rows)
{
	const groups = new Map();
	for (const r of rows)
		groups.set(r.cluster, [...groups.get(r.cluster) || [], r]);
	return [...groups.values()].map((members) => ({members, rtt_s: median(members.map((m) => m.home && m.home.rtt_s))}));
}

/* Where each member is drawn. */
function placesOf(groups)
{
	const places = new Map(), farthest = Math.max(...groups.map((g) => g.rtt_s || 0), .001);
	groups.forEach((g, i) => {
		const angle = 2 * Math.PI * (i + .5) / groups.length - Math.PI / 2, far = .45 + .33 * (g.rtt_s || 0) / farthest;
		g.x = WIDTH / 2 + Math.cos(angle) * far * WIDTH / 2;
		g.y = HEIGHT / 2 + Math.sin(angle) * far * HEIGHT / 2;
		g.r = Math.min(70, 14 + 7 * Math.sqrt(g.members.length));
		g.members.forEach((m, k) => {
			/* A sunflower's seeds: even, however many. */
			const turn = 2.39996 * k, out = g.members.length > 1 ? (g.r - 8) * Math.sqrt((k + .5) / g.members.length) : 0;
			places.set(m.member, [g.x + out * Math.cos(turn), g.y + out * Math.sin(turn)]);
		});
	});
	places.set(undefined, [WIDTH / 2, HEIGHT / 2]);
	return places;
}

function line(places, from, to, kind, title)
{
	const [x1, y1] = places.get(from), [x2, y2] = places.get(to);
	return draw('line', {x1, y1, x2, y2, class: `way ${kind}`}, title);
}

function linesOf(rows, places, way, nameOf)
{
	const aggregators = rows.filter((r) => r.shards.length);
	const said = (a, b) => {
		const w = way(a, b);
		return w ? `${milliseconds(w.rtt_s)}, measured ${ago(w.age_s)}` : 'not measured';
	};
	const lines = [];
	for (const r of rows) {
		if (!aggregators.length)
			lines.push(line(places, r.member, undefined, 'star', `${nameOf(r.member)}, coordinator: ${said(r.member)}`));
		for (const a of aggregators.length <= 8 ? aggregators : [])
			if (a !== r)
				lines.push(line(places, r.member, a.member, 'to', `${nameOf(r.member)} to ${nameOf(a.member)}: ${said(r.member, a.member)}`));
		if (known(r.relay) && places.has(r.relay))
			lines.push(line(places, r.member, r.relay, 'relay', `${nameOf(r.relay)} passes updates on to ${nameOf(r.member)}: ${said(r.member, r.relay)}`));
		if (r.shards.length)
			lines.push(line(places, r.member, undefined, 'home', `${nameOf(r.member)}, coordinator: ${said(r.member)}`));
	}
	return lines;
}

const roleOf = (r) => r.shards.length ? `aggregator of ${r.shards.length === 1 ? 'shard' : 'shards'} ${ranges(r.shards)}` : 'member';

function showMap(t, rows, nameOf)
{
	const few = rows.slice(0, DRAWN), groups = groupsOf(few), places = placesOf(groups);
	const parts = [];
	for (const g of groups) {
		parts.push(draw('circle', {cx: g.x, cy: g.y, r: g.r, class: 'group'}));
		const label = draw('text', {x: g.x, y: g.y + g.r + 16, class: 'label'});
		label.textContent = `${plural(g.members.length, 'peer')}, ${milliseconds(g.rtt_s)}`;
		parts.push(label);
	}
	parts.push(...linesOf(few, places, waysOf(t.input.pairs), nameOf));
	for (const r of few) {
		const [cx, cy] = places.get(r.member);
		parts.push(draw('circle', {cx, cy, r: r.shards.length ? 7 : 4, class: r.shards.length ? 'node aggregator' : 'node'},
			`${nameOf(r.member)}: ${roleOf(r)}`));
	}
	parts.push(draw('rect', {x: WIDTH / 2 - 8, y: HEIGHT / 2 - 8, width: 16, height: 16, rx: 3, class: 'node coordinator'}, 'coordinator'));
	$('topology-map').replaceChildren(...parts);
}

/* ---- tables */

const columnsOf = (nameOf) => [
	{label: 'Peer', kind: 'name', of: (r) => nameOf(r.member), put: (cell, name) => cell.replaceChildren(make('bdi', name))},
	{label: 'Group', term: 'group', number: true, of: (r) => count(r.cluster + 1)},
	{label: 'Part', term: 'part', kind: 'wide', of: (r) => [roleOf(r), known(r.relay) ? `updates by way of ${nameOf(r.relay)}` : ''].filter(Boolean).join(', ')},
	{label: 'Reached', term: 'reached', of: (r) => r.reachable ? 'yes' : 'no'},
	{label: 'RTT', term: 'way', number: true, of: (r) => r.home ? `${milliseconds(r.home.rtt_s)}` : DASH},
	{label: 'Measured', term: 'way', number: true, rare: true, of: (r) => r.home ? ago(r.home.age_s) : DASH},
	{label: 'Up', term: 'carries', number: true, of: (r) => rate(r.up)},
	{label: 'Down', term: 'carries', number: true, of: (r) => rate(r.down)},
	{label: 'Sends', term: 'sends', number: true, of: (r) => short(r.sends, 'B')},
	{label: 'Takes', term: 'sends', number: true, of: (r) => short(r.takes, 'B')},
];

const roundColumns = [
	{label: 'Round', of: (r) => count(r.round)},
	{label: 'Plan', of: (r) => r.star ? 'coordinator' : 'aggregators'},
	{label: 'Predicted', term: 'predicted', number: true, of: (r) => r.predicted_s > 0 ? span(r.predicted_s) : DASH},
	{label: 'Measured', term: 'predicted', number: true, of: (r) => span(r.measured_s)},
];

let showMembers = null;
const showRounds = table('topology-rounds', 'Rounds, predicted and measured', roundColumns, 'No round has been measured yet.');

/* t: /api/v1/topology.json; nameOf: the name of a member's number. */
export function showTopology(t, nameOf)
{
	const rows = rowsOf(t), byLoad = [...rows].sort((a, b) => b.shards.length - a.shards.length || a.cluster - b.cluster || a.member - b.member);
	const n = rows.filter((r) => r.shards.length).length;
	showMembers = showMembers || table('topology-members', 'Members and their part', columnsOf(nameOf), 'Nobody is linked.');
	text($('topology-reason'), t.plan.reason);
	facts($('topology-facts'), [`plan ${t.mode}`, `round ${count(t.round)}`, plural(t.plan.clusters, 'group'),
		n ? plural(n, 'aggregator') : 'no aggregator', `${count(t.aggregated)} updates by peers`,
		`coordinator ${short(t.bytes_in, 'B')} in, ${short(t.bytes_out, 'B')} out`]);
	$('topology-figure').hidden = !rows.length;
	if (rows.length)
		showMap(t, byLoad, nameOf);
	showMembers(byLoad.slice(0, SHOWN), (r) => r.member);
	$('topology-more').hidden = byLoad.length <= SHOWN;
	text($('topology-more'), `${count(byLoad.length - SHOWN)} more in topology.json.`);
	showRounds([...t.rounds].sort((a, b) => b.round - a.round), (r) => r.round);
}
