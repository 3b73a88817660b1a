# shoal: the only Makefile.  `make help` lists what there is.
MODE ?= release
O    ?= build/$(MODE)
V    ?= 0
CC   ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unversioned)

# ---- layers, lowest first: who may include and link whom (tests/check_layers.sh reads the same table)
LAYERS            := base model compress net kernels round peer coordinator sim
below_base        := base
below_model       := model base
below_compress    := compress base
below_net         := net base
below_kernels     := kernels model base
below_round       := round net compress model base
below_peer        := peer kernels round net compress model base
below_coordinator := coordinator round net compress model base
below_sim         := sim peer coordinator kernels round net compress model base

PKGS := libevent libevent_openssl libevent_pthreads libcurl openssl libzmq libzstd jansson sqlite3 inih
# Asked for only when something is built, so that `make deps` and `make help` work on a bare machine.
pkg_cflags = $(eval pkg_cflags := $(shell pkg-config --cflags $(PKGS) 2>/dev/null))$(pkg_cflags)

warn := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wvla -Wundef -Wformat=2 -Wno-overlength-strings -Werror
opt_release := -O2
opt_debug   := -O0 -DDEBUG
opt_asan    := -O1 -fsanitize=address -fno-omit-frame-pointer
opt_ubsan   := -O1 -fsanitize=undefined -fno-sanitize-recover=all
opt_tsan    := -O1 -fsanitize=thread
opt := $(opt_$(MODE))
ifeq ($(opt),)
$(error MODE=$(MODE) is not one of release debug asan ubsan tsan)
endif
# Fixed order, no contraction: two machines must get the same bits.  kernels/cpu alone may fuse.
CFLAGS_all  = -std=c11 -D_GNU_SOURCE -g $(opt) -ffp-contract=off -fno-strict-aliasing -pthread $(warn) -I. -I$(O) \
	-MMD -MP $(pkg_cflags) $(CFLAGS)
LDLIBS_net  = -lzmq -lcurl -levent_openssl -levent_pthreads -levent -lprotobuf-nanopb
LDLIBS_all  = $(LDLIBS_net) -lssl -lcrypto -lzstd -ljansson -linih -lsqlite3 -pthread -lm
# The library's own threads are never used: kernels/cpu tiles over base/pool and calls single-threaded products.
LDLIBS_blas = -lopenblas
# Debian calls it nanopb_generator.py, others nanopb_generator.
NANOPB = $(firstword $(shell command -v nanopb_generator.py nanopb_generator 2>/dev/null) nanopb_generator)

ifeq ($(V),0)
say = @printf '  %-6s %s\n' "$(1)" "$(2)";
else
say =
endif

# ---- sources by wildcard
srcs = $(filter-out kernels/ref/% kernels/onednn/%,$(wildcard $1/*.c $1/*/*.c))
objs = $(patsubst %.c,$(O)/%.o,$(call srcs,$1))
# kernels/ref is compiled twice from the same text: float and double.
ref_srcs := $(wildcard kernels/ref/*.c)
extra_kernels := $(patsubst %.c,$(O)/%.o,$(ref_srcs)) $(patsubst %.c,$(O)/%.f64.o,$(ref_srcs))
extra_net := $(O)/net/messages.pb.o
layer_objs = $(call objs,$1) $(extra_$1)
link_objs  = $(filter-out %/main.o,$(foreach l,$(below_$1),$(call layer_objs,$l)))

tests_src  := $(wildcard tests/test_*.c)
fuzz_src   := $(wildcard tests/fuzz_*.c)
fuzz_src   := $(filter-out tests/fuzz_replay.c,$(fuzz_src))
e2e_src    := $(wildcard tests/e2e_*.c)
bench_src  := $(wildcard tests/bench_*.c)
tests_bin  := $(patsubst %.c,$(O)/%,$(tests_src))
fuzz_bin   := $(patsubst %.c,$(O)/%,$(fuzz_src))
e2e_bin    := $(patsubst %.c,$(O)/%,$(e2e_src))
bench_bin  := $(patsubst %.c,$(O)/%,$(bench_src))
layer_of    = $(word 2,$(subst _, ,$(basename $(notdir $1))))

.DEFAULT_GOAL := all
.SECONDARY:
.SUFFIXES:

all: ready $(O)/shoal-peer $(O)/shoal-coordinator $(O)/shoal-sim ## build the programs into build/$(MODE)/

$(O)/shoal-peer: $(O)/peer/main.o $(call link_objs,peer)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -o $@ $^ $(LDLIBS_blas) $(LDLIBS_all)
$(O)/shoal-sim: $(O)/sim/main.o $(call link_objs,sim)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -o $@ $^ $(LDLIBS_blas) $(LDLIBS_all)
$(O)/shoal-coordinator: $(O)/coordinator/main.o $(call link_objs,coordinator)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -o $@ $^ $(LDLIBS_all)

# ---- oneDNN's products, a plug-in of the cpu backend (kernels/cpu/provider.h), where its headers are
plugin_src := $(wildcard kernels/onednn/*.c)
plugin_so  := $(O)/libexec/shoal/shoal-onednn.so
has_dnnl   := $(shell echo '\#include <dnnl.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
plugin     := $(if $(has_dnnl),$(plugin_so))
all: $(plugin)
$(O)/kernels/onednn/%.o: CFLAGS_dir = -fPIC -fvisibility=hidden
$(plugin_so): $(patsubst %.c,$(O)/%.o,$(plugin_src))
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -shared -o $@ $^ -ldnnl -lgomp
# What test_kernels_product must see refused.
$(O)/tests/plugin_%.o: CFLAGS_dir = -fPIC
$(O)/tests/plugin_%.so: $(O)/tests/plugin_%.o
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -shared -o $@ $^
$(O)/tests/test_kernels_product: | $(O)/tests/plugin_wrong.so $(plugin)
# Goes into programs of any build, before what a sanitizer brings: so it has none.
$(O)/tests/preload_%.so: tests/preload_%.c tests/help_%.h
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(filter-out -fsanitize%,$(CFLAGS_all)) -fPIC -shared -o $@ $<
$(O)/tests/e2e_faults $(O)/tests/e2e_quota: | $(O)/tests/preload_faults.so

# ---- compiling
$(O)/kernels/cpu/%.o: CFLAGS_dir = -O3 -ffp-contract=fast
$(O)/compress/%.o: CFLAGS_dir = -O3
$(O)/kernels/ref/%.f64.o: CFLAGS_dir = -DREF_DOUBLE
$(O)/base/version.o: CFLAGS_dir = -DVERSION='"$(VERSION)"'
$(O)/base/version.o: $(O)/version
$(O)/version: force
	@mkdir -p $(@D); echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
force:
# .incbin is not seen by -MMD.
$(O)/coordinator/assets.o: $(wildcard coordinator/web/*)
$(O)/%.o: %.c | $(O)/net/messages.pb.h
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS_all) $(CFLAGS_dir) -c -o $@ $<
$(O)/kernels/ref/%.f64.o: kernels/ref/%.c
	@mkdir -p $(@D)
	$(call say,CC64,$<)$(CC) $(CFLAGS_all) $(CFLAGS_dir) -c -o $@ $<
$(O)/net/messages.pb.c $(O)/net/messages.pb.h &: net/messages.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$<)$(NANOPB) -q -I net -D $(O)/net messages.proto
$(O)/net/messages.pb.o: $(O)/net/messages.pb.c
	$(call say,CC,$<)$(CC) $(filter-out -Werror,$(CFLAGS_all)) -w -I$(O)/net -c -o $@ $<

# ---- tests: one links its layer and what lies below, never more
define test_rule
$(O)/tests/$(basename $(notdir $1)): $(O)/tests/$(basename $(notdir $1)).o $(call link_objs,$(call layer_of,$1)) \
	$(patsubst %.c,$(O)/%.o,$(wildcard tests/help_$(call layer_of,$1).c))
	$$(call say,LINK,$$@)$$(CC) $$(opt) $$(LDFLAGS) -o $$@ $$^ -lcmocka \
		$(if $(filter kernels peer sim,$(call layer_of,$1)),$(LDLIBS_blas)) $$(LDLIBS_all)
endef
$(foreach t,$(tests_src),$(eval $(call test_rule,$t)))
define fuzz_rule
$(O)/tests/$(basename $(notdir $1)): $(O)/tests/$(basename $(notdir $1)).o $(O)/tests/fuzz_replay.o \
	$(call link_objs,$(call layer_of,$1))
	$$(call say,LINK,$$@)$$(CC) $$(opt) $$(LDFLAGS) -o $$@ $$^ \
		$(if $(filter kernels peer sim,$(call layer_of,$1)),$(LDLIBS_blas)) $$(LDLIBS_all)
endef
$(foreach t,$(fuzz_src),$(eval $(call fuzz_rule,$t)))
# The same target with libFuzzer's main instead of the replay's (tests/fuzz.sh).
define fuzzer_rule
$(O)/tests/$(basename $(notdir $1)).libfuzzer: $(O)/tests/$(basename $(notdir $1)).o $(call link_objs,$(call layer_of,$1))
	$$(call say,LINK,$$@)$$(CC) $$(opt) $$(LDFLAGS) -o $$@ $$^ \
		$(if $(filter kernels peer sim,$(call layer_of,$1)),$(LDLIBS_blas)) $$(LDLIBS_all)
endef
$(foreach t,$(fuzz_src),$(eval $(call fuzzer_rule,$t)))
# A proxy that connections are to go by.
$(O)/tests/test_net_proxy $(O)/tests/e2e_proxy: $(O)/tests/help_proxy.o
# A router that opens ports.
$(O)/tests/test_peer_portmap $(O)/tests/e2e_upnp: $(O)/tests/help_igd.o
# End-to-end tests drive the real programs as processes: they see base/ (and the peers' libraries) only.
define e2e_rule
$(O)/tests/$(basename $(notdir $1)): $(O)/tests/$(basename $(notdir $1)).o \
	$(O)/tests/help_proc.o $(O)/tests/help_run.o $(O)/tests/help_swarm.o $(O)/tests/help_webdriver.o $(O)/tests/help_liar.o $(O)/tests/help_relay.o $(O)/tests/help_faults.o \
	$(call link_objs,round)
	$$(call say,LINK,$$@)$$(CC) $$(opt) $$(LDFLAGS) -o $$@ $$^ -lcmocka $$(LDLIBS_all)
endef
$(foreach t,$(e2e_src),$(eval $(call e2e_rule,$t)))
# The link emulator of tests/wan: namespaces with slow links between them.
wan_emulator := $(O)/tests/wan/emulator
$(wan_emulator): $(patsubst %.c,$(O)/%.o,$(wildcard tests/wan/*.c)) $(call link_objs,base)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -o $@ $^ $(LDLIBS_all)
$(O)/tests/e2e_wan $(O)/tests/e2e_nat $(O)/tests/e2e_firewall: | $(wan_emulator)
$(O)/tests/test_base_nat: $(O)/tests/wan/nat.o
# Real processes in which something breaks all the time (tests/chaos/chaos.c); schedule and count have unit tests.
chaos := $(O)/tests/chaos
$(chaos)/chaos: $(patsubst %,$(O)/tests/%.o,chaos/chaos chaos/actors chaos/listed chaos/schedule chaos/verdict help_proc help_run help_swarm \
	help_relay help_faults) $(call link_objs,coordinator)
	$(call say,LINK,$@)$(CC) $(opt) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS_all)
$(O)/tests/test_base_chaos: $(chaos)/schedule.o
$(O)/tests/test_round_listed: $(chaos)/listed.o
$(chaos)/chaos: | $(O)/tests/preload_faults.so
define bench_rule
$(O)/tests/$(basename $(notdir $1)): $(O)/tests/$(basename $(notdir $1)).o $(call link_objs,peer) \
	$(patsubst %.c,$(O)/%.o,$(wildcard tests/help_bench_*.c))
	$$(call say,LINK,$$@)$$(CC) $$(opt) $$(LDFLAGS) -o $$@ $$^ $(LDLIBS_blas) $$(LDLIBS_all)
endef
$(foreach t,$(bench_src) $(wildcard tests/study_*.c),$(eval $(call bench_rule,$t)))
# Runs on the emulated links, beside what they are measured against.
$(O)/tests/bench_swarm $(O)/tests/bench_distance: $(patsubst %.c,$(O)/%.o,$(wildcard tests/help_bed*.c)) | $(wan_emulator)
$(O)/tests/bench_swarm: | $(O)/tests/bench_allreduce
# A coordinator with many light peers.
$(O)/tests/bench_coordinator: $(patsubst %,$(O)/tests/%.o,help_light help_bed help_bed_run help_bed_trace help_bed_loss)
# Plans as a coordinator does.
$(O)/tests/bench_distance: $(patsubst %,$(O)/tests/%.o,help_fluid help_fluid_plan) $(call link_objs,sim)
$(patsubst %.c,$(O)/%,$(wildcard tests/study_*.c)): $(O)/tests/help_study.o
# The all-reduce that ours is measured against, and its test.
$(O)/tests/bench_allreduce $(O)/tests/test_peer_reduce: $(patsubst %.c,$(O)/%.o,$(wildcard tests/help_reduce*.c))

-include $(shell find $(O) -name '*.d' 2>/dev/null)

# ---- what people call
ready: ## (used by the others) check that what the build needs is installed, else install it
	@tests/setup.sh check || tests/setup.sh install
deps: ## install what build, demo and tests need (apt; prints the line for dnf, apk, pacman)
	@tests/setup.sh install

lint: ready $(O)/net/messages.pb.h ## layers, symbols, headers alone, format, banned calls, options and docs
	@printf '%s\n' $(foreach l,$(LAYERS),"$l: $(below_$l)") | tests/check_layers.sh
	@tests/check_style.sh
	@tests/check_headers.sh "$(CC)" "$(O)" $(CFLAGS_all)

symbols: $(foreach l,$(LAYERS),$(call objs,$l))
	@tests/check_symbols.sh $(filter-out %/main.o,$(foreach l,$(LAYERS),$(call objs,$l)))

# T=pattern picks tests: make check T=net_link
T ?=
pick = $(if $(T),$(foreach t,$1,$(if $(findstring $(T),$t),$t)),$1)
check: ready $(if $(T),,lint symbols) $(call pick,$(tests_bin) $(fuzz_bin) $(e2e_bin)) $(O)/shoal-peer $(O)/shoal-coordinator $(O)/shoal-sim $(plugin) ## all tests; ends "N passed, N failed"
	@SHOAL_BIN=$(abspath $(O)) tests/run.sh $(call pick,$(tests_bin) $(fuzz_bin) $(e2e_bin))
test: check ## the same as check

check-long: ## an hour or two: tests by gcc and clang and under asan, ubsan, tsan, then make chaos DURATION=120 SEED=1 and fuzz
	@tests/check_long.sh

check-torch: ready $(O)/tests/test_kernels_golden ## golden values made afresh by PyTorch (OPTIONAL=torch make deps), and their tests
	@tests/check_torch.sh $(O)

check-aarch64: ## the vector loops built for aarch64 and tested by emulation (gcc-aarch64-linux-gnu, qemu-user)
	@tests/check_aarch64.sh

check-bf16: all ## trains twice, with products in float32 and in bf16: the losses must agree
	@tests/check_bf16.sh $(O)

bench: all $(bench_bin) ## make bench T=compute|link|transfer|codec|allreduce|swarm|distance: a table, and JSON under build/bench/
	@mkdir -p build/bench
	@for b in $(call pick,$(bench_bin)); do SHOAL_BIN=$(abspath $(O)) $$b || exit 1; done

wan: ready $(wan_emulator) ## make wan PROFILE=home|continents|lossy|a|b|c (all): emulated links, what was asked and what is achieved
	@SHOAL_BIN=$(abspath $(O)) tests/wan/wan.sh measure $(PROFILE)

DURATION ?= 60
SEED ?= 1
chaos: all $(chaos)/chaos ## make chaos DURATION=60 SEED=1 [SCRIPT=file] [SET="round.overlap=false"]: everything breaks again and again, nothing may be lost
	@tests/chaos/chaos.sh $(O) $(DURATION) $(SEED) "$(SCRIPT)" "$(SET)"

fuzz: ready ## make fuzz T=net_msg DURATION=60: libFuzzer with address sanitizer on each decoder
	@tests/fuzz.sh "$(T)" "$(DURATION)"

study: all $(O)/tests/study_codec $(O)/tests/study_peers ## make study T=codec|peers|delay|churn (codec): tables of the loss, three seeds; what is there is kept (ROWS=two SEEDS="1 2" JOBS=2)
	@tests/study.sh $(O) $(or $(T),codec)

demo: all ## train a real model on the King James text (TEXT=file for another); exit 0 only if it learned
	@tests/demo.sh $(O)

install: all ## copy the programs to PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/shoal
	install -m 755 $(O)/shoal-peer $(O)/shoal-coordinator $(O)/shoal-sim $(DESTDIR)$(PREFIX)/bin
	install -m 644 configs/* $(DESTDIR)$(PREFIX)/share/shoal
	$(if $(plugin),install -D -m 644 $(plugin) $(DESTDIR)$(PREFIX)/libexec/shoal/$(notdir $(plugin)))

format: ## run clang-format over the sources
	@clang-format -i $(wildcard base/*.[ch] model/*.[ch] compress/*.[ch] net/*.[ch] kernels/*.[ch] kernels/*/*.[ch] \
		round/*.[ch] peer/*.[ch] coordinator/*.[ch] tests/*.[ch] tests/wan/*.[ch] tests/chaos/*.[ch])

clean: ## remove build/
	rm -rf build

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-11s %s\n", $$1, $$2 }'
	@echo '  MODE=release|debug|asan|ubsan|tsan, CC=gcc|clang, V=1 shows commands, T=pattern picks tests'

.PHONY: force all ready deps lint symbols check test check-long check-torch check-aarch64 check-bf16 bench wan chaos fuzz demo install format clean help
