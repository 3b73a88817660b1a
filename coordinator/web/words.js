/* Words for numbers, and the small parts that the page is made of.  Everything that comes from a
 * peer goes through textContent or setAttribute, never through HTML. */

export const $ = (id) => document.getElementById(id);

/* ---- numbers; what is not known is a dash */

export const DASH = '–';
export const known = (v) => v !== null && v !== undefined && Number.isFinite(v);
export const count = (n) => known(n) ? n.toLocaleString('en') : DASH;
export const fixed = (v, digits) => known(v) ? v.toFixed(digits) : DASH;
export const percent = (v) => known(v) ? `${(100 * v).toFixed(1)} %` : DASH;
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/* Three digits and a prefix: "612 k", "1.20 MB". */
export function short(n, unit = '')
{
	if (!known(n))
		return DASH;
	const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
	let i = 0;
	for (; Math.abs(n) >= 999.5 && i < prefixes.length - 1; i++)
		n /= 1000;
	const digits = i === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
	return `${n.toFixed(digits)} ${prefixes[i]}${unit}`.trim();
}

/* Tokens per second: "3,658", "120 k". */
export const speed = (v) => !known(v) ? DASH : v < 99999.5 ? count(Math.round(v)) : short(v);

/* A time that has passed or is left: "850 ms", "12.3 s", "3 min 5 s", "2 h 10 min". */
export function span(s)
{
	if (!known(s))
		return DASH;
	if (s < 1)
		return `${(1000 * s).toFixed(s < .00995 ? 1 : 0)} ms`;
	if (s < 60)
		return `${Number.isInteger(s) ? s : s.toFixed(1)} s`;
	const units = [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']];
	const [big, name, small, rest] = units.find(([least]) => s >= least);
	const left = Math.floor(s % big / small);
	return `${Math.floor(s / big)} ${name}` + (left ? ` ${left} ${rest}` : '');
}

/* A moment by the coordinator's clock: today's without the day. */
export function moment(at_s)
{
	if (!known(at_s))
		return DASH;
	const at = new Date(1000 * at_s), time = at.toLocaleTimeString('en-GB');
	const day = at.toLocaleDateString('en-GB', {day: 'numeric', month: 'short'});
	return new Date().toDateString() === at.toDateString() ? time : `${day} ${time}`;
}

/* ---- elements */

export function make(tag, words, attributes = {})
{
	const e = document.createElement(tag);
	if (words !== undefined)
		e.textContent = words;
	for (const [name, value] of Object.entries(attributes))
		e.setAttribute(name, value);
	return e;
}

/* Sets a text only when it is another one: selections and screen readers are left in peace. */
export function text(element, words)
{
	if (element.textContent !== words)
		element.textContent = words;
}

/* What a figure means stands once, in the page's own explanations. */
export function meaning(term)
{
	const dd = document.querySelector(`[data-term="${term}"]`);
	return dd ? dd.textContent.replace(/\s+/g, ' ').trim() : '';
}

/* A hash: short, the whole of it on click. */
const HASH_FEW = 8;
export function hash(hex)
{
	if (!hex)
		return make('span', DASH);
	const b = make('button', hex.slice(0, HASH_FEW), {type: 'button', class: 'hash', title: hex,
		'aria-expanded': 'false', 'aria-label': `hash ${hex.slice(0, HASH_FEW)}, show all of it`});
	b.addEventListener('click', () => {
		const whole = b.getAttribute('aria-expanded') === 'false';
		b.setAttribute('aria-expanded', String(whole));
		b.textContent = whole ? hex : hex.slice(0, HASH_FEW);
	});
	return b;
}

/* A line of facts with dots between them; a fact is a text, or a list of texts and elements. */
export function facts(into, parts)
{
	into.replaceChildren(...parts.flatMap((p, i) => i ? [' · ', p] : [p]).flat());
}

/* ---- tables.  A column: label, term (of its explanation), kind (a class), number (aligned so), rare
 * (left out where it is narrow), of(row) its value, put(cell, value, row) how it is shown when it is
 * not just a text.  A cell is touched only when its value has changed, so that a reader's selection
 * and focus stay. */

const classOf = (c) => [c.kind, c.number && 'number', c.rare && 'rare'].filter(Boolean).join(' ');

function headOf(columns)
{
	const thead = make('thead', undefined, {role: 'rowgroup'});
	const tr = make('tr', undefined, {role: 'row'});
	for (const c of columns) {
		const th = make('th', c.label, {scope: 'col', role: 'columnheader'});
		th.title = c.term ? meaning(c.term) : '';
		th.className = classOf(c);
		tr.append(th);
	}
	thead.append(tr);
	return thead;
}

function rowOf(columns, key)
{
	const tr = make('tr', undefined, {role: 'row', 'data-key': key});
	const cells = columns.map((c, i) => {
		const cell = i ? make('td', undefined, {role: 'cell', 'data-label': c.label})
			: make('th', undefined, {role: 'rowheader', scope: 'row'});
		cell.className = classOf(c);
		tr.append(cell);
		return {cell, was: undefined};
	});
	return {tr, cells};
}

function fill(columns, entry, row)
{
	columns.forEach((c, i) => {
		const value = c.of(row), is = JSON.stringify(value), at = entry.cells[i];
		if (at.was === is)
			return;
		at.was = is;
		if (c.put)
			c.put(at.cell, value, row);
		else
			at.cell.textContent = value;
	});
}

/* Returns the function that shows rows, each under its key. */
export function table(id, caption, columns, empty)
{
	const t = $(id), body = make('tbody', undefined, {role: 'rowgroup'});
	let shown = new Map();
	/* The roles say again what CSS takes away where rows are shown as cards. */
	t.setAttribute('role', 'table');
	t.setAttribute('aria-label', caption);
	t.replaceChildren(headOf(columns), body);
	const nothing = make('tr', undefined, {role: 'row'});
	nothing.append(make('td', empty, {role: 'cell', class: 'empty', colspan: columns.length}));

	return (rows, keyOf) => {
		const now = new Map();
		for (const row of rows) {
			const key = String(keyOf(row));
			const entry = now.get(key) || shown.get(key) || rowOf(columns, key);
			fill(columns, entry, row);
			now.set(key, entry);
		}
		shown = now;
		const order = now.size ? [...now.values()].map((entry) => entry.tr) : [nothing];
		if (order.length !== body.children.length || order.some((tr, i) => body.children[i] !== tr))
			body.replaceChildren(...order);
	};
}
