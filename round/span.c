#include "round/span.h"

uint64_t span_count(const struct span *s, uint32_t n)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < n; i++)
		count += s[i].last - s[i].first;
	return count;
}

uint64_t span_at(const struct span *s, uint32_t n, uint64_t at)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t here = s[i].last - s[i].first;
		if (at < here)
			return s[i].first + at;
		at -= here;
	}
	return UINT64_MAX;
}

bool span_is_prefix(
	const struct span *done, uint32_t n_done, const struct span *all, uint32_t n_all)
{
	for (uint32_t i = 0; i < n_done; i++) {
		bool final = i + 1 == n_done;
		if (i >= n_all || done[i].first != all[i].first || done[i].last <= done[i].first)
			return false;
		if (final ? done[i].last > all[i].last : done[i].last != all[i].last)
			return false;
	}
	return true;
}

uint32_t span_head(const struct span *all, uint32_t n, uint64_t count, struct span *out)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n && count; i++) {
		uint64_t here = all[i].last - all[i].first, take = here < count ? here : count;
		if (take)
			out[kept++] = (struct span){all[i].first, all[i].first + take};
		count -= take;
	}
	return kept;
}

uint32_t span_tail(const struct span *all, uint32_t n, uint64_t count, struct span *out)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t here = all[i].last - all[i].first, skip = here < count ? here : count;
		if (skip < here)
			out[kept++] = (struct span){all[i].first + skip, all[i].last};
		count -= skip;
	}
	return kept;
}
