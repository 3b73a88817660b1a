/* The chart: validation and training loss against tokens or time, over the text's own entropies. */

import {$, count, fixed, known, short, span} from '/words.js';

let chart = null, axis = 'tokens', yardsticks = null;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Dashed lines with their names beside them, where no curve is. */
const BESIDE = 86, BESIDE_NARROW = 60, NARROW = 480;
const yardstickLines = {id: 'yardsticks', beforeDatasetsDraw({ctx, chartArea, scales, width}) {
	ctx.save();
	ctx.font = `12px ${getComputedStyle(document.body).fontFamily}`;
	ctx.fillStyle = ctx.strokeStyle = colour('--quiet');
	ctx.setLineDash([3, 4]);
	for (const [name, value] of Object.entries(yardsticks || {})) {
		const y = scales.y.getPixelForValue(value);
		if (!known(value) || y < chartArea.top || y > chartArea.bottom)
			continue;
		ctx.globalAlpha = .6;
		ctx.beginPath();
		ctx.moveTo(chartArea.left, y);
		ctx.lineTo(chartArea.right, y);
		ctx.stroke();
		ctx.globalAlpha = 1;
		ctx.fillText(width < NARROW ? name : `${name} ${value.toFixed(2)}`, chartArea.right + 6, y + 4);
	}
	ctx.restore();
}};

const curve = (label, name, more) => ({label, data: [], borderColor: colour(name), backgroundColor: colour(name),
	borderWidth: 2, pointRadius: 0, pointHitRadius: 12, ...more});

const scale = (title, words) => ({type: 'linear', grid: {color: colour('--line'), drawBorder: false},
	ticks: {color: colour('--quiet'), maxRotation: 0, callback: words},
	title: {display: Boolean(title), text: title, color: colour('--quiet')}});

const where = (x) => axis === 'time' ? `after ${span(x)}` : `${count(x)} tokens`;
const tooltip = {callbacks: {title: (items) => items.length ? where(items[0].parsed.x) : '',
	label: (item) => `${item.dataset.label} ${fixed(item.parsed.y, 3)} nats per byte`}};

function start()
{
	if (chart)
		chart.destroy();
	const legend = {position: 'bottom', labels: {color: colour('--quiet'), boxWidth: 14, boxHeight: 2,
		filter: (item, data) => data.datasets[item.datasetIndex].data.length > 0}};
	chart = new Chart($('chart'), {
		type: 'line',
		data: {datasets: [curve('validation', '--accent', {pointRadius: 3}),
			curve('training', '--second', {borderWidth: 1.5, order: 1})]},
		options: {animation: false, maintainAspectRatio: false,
			layout: {padding: ({chart: c}) => ({right: !yardsticks ? 0 : c.width < NARROW ? BESIDE_NARROW : BESIDE})},
			interaction: {mode: 'nearest', axis: 'x', intersect: false},
			scales: {x: scale('tokens', (v) => axis === 'time' ? span(v) : short(v)),
				y: scale('', (v) => fixed(v, 1))},
			plugins: {legend, tooltip}},
		plugins: [yardstickLines],
	});
}

function describe(points)
{
	const first = points[0], last = points[points.length - 1];
	if (last)
		$('chart').setAttribute('aria-label', `Loss against ${axis}: ${fixed(first.nats_per_byte, 2)} nats per byte ` +
			`at first, ${fixed(last.nats_per_byte, 3)} after ${short(last.tokens)} tokens`);
	$('chart').dataset.points = points.length;
}

let last = null;

/* points: of validation; rounds: those with a training loss; both ascending. */
export function showLoss(points, rounds, sticks)
{
	const empty = points.length + rounds.length === 0;
	last = [points, rounds, sticks];
	yardsticks = sticks;
	$('chart-empty').hidden = !empty;
	$('chart').parentElement.hidden = empty;
	describe(points);
	if (empty)
		return;
	if (!chart)
		start();
	const begin = Math.min(...points.map((p) => p.at_s), ...rounds.map((r) => r.closed_s));
	const along = (at_s, tokens) => axis === 'time' ? at_s - begin : tokens;
	const [validation, training] = chart.data.datasets;
	validation.data = points.map((p) => ({x: along(p.at_s, p.tokens), y: p.nats_per_byte}));
	training.data = rounds.map((r) => ({x: along(r.closed_s, r.total_tokens), y: r.nats_per_byte}));
	const heights = [...validation.data, ...training.data].map((p) => p.y);
	if (yardsticks)
		heights.push(yardsticks.trigram);
	chart.options.scales.y.suggestedMin = Math.min(...heights) - .1;
	chart.options.scales.x.title.text = axis === 'time' ? 'time since the first measurement' : 'tokens';
	chart.update('none');
}

const choices = [...document.querySelectorAll('[data-axis]')];
for (const b of choices)
	b.addEventListener('click', () => {
		axis = b.dataset.axis;
		choices.forEach((other) => other.setAttribute('aria-pressed', String(other === b)));
		if (last)
			showLoss(...last);
	});

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
	if (!chart)
		return;
	start();
	showLoss(...last);
});
