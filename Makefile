# Two commands do everything on a fresh machine: `make run` and `make test`. Work is done by scripts/ and cargo.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin
MINUTES ?= 3
PREFIX ?= /usr/local

.PHONY: help run test test-long soak overload interop test-vm test-kernel-debug vm bpf build install install-library deb python bench bench-images bench-records assess assess-relay assess-clients assess-vm fmt lint semver fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

run: ## install what is missing, build, serve MEDIA=folder (or a sample clip) and say how to play it; ARGS="--rtsp …"
	@[ -z "$$MEDIA" ] || [ -e "$$MEDIA" ] || { echo "MEDIA=$$MEDIA does not exist; name a folder or a file" >&2; exit 66; }
	@scripts/install.sh run
	cargo build --release --locked -p wirepath
	@trap : INT; scripts/run.sh $(ARGS) || [ $$? = 130 ] # Ctrl-C is how it is stopped

# What building needs is installed first, the rest beside the build, but for sudo that may ask for a password.
test: ## install what is missing and run every check and test; guests with the newest kernel
	@purpose=; [ ! -t 0 ] || purpose=test; scripts/install.sh $$purpose
	cargo run --quiet --locked -p wirepath-check

test-long: ## the same with guests of every kernel, and with random tests that run for MINUTES minutes each (3)
	@WIREPATH_LONG=$(MINUTES) $(MAKE) --no-print-directory test

soak: MINUTES = 60
soak: ## SESSIONS (2000) at random with everything that goes wrong, for MINUTES (60); writes SUMMARY (target/soak.json)
	@scripts/install.sh
	cargo build --release --locked -p wirepath
	@mkdir -p $(dir $(abspath $(or $(SUMMARY),target/soak.json)))
	WIREPATH_SOAK_SECONDS=$$((60 * $(MINUTES))) WIREPATH_SOAK_SESSIONS=$(or $(SESSIONS),2000) \
	  WIREPATH_SOAK_SUMMARY=$(abspath $(or $(SUMMARY),target/soak.json)) \
	  cargo test --release --locked -p wirepath-tests --test loopback -- soak::

interop: ## play every format with every client over every transport, pause, seek, rewind, and write docs/interop.md; 15 minutes
	@scripts/install.sh players
	cargo build --locked -p wirepath
	cargo run --quiet --locked -p wirepath-interop -- $(or $(ARGS),--write docs/interop.md)

overload: ## twice the clients that fit on one processor, by the thousand; writes SUMMARY (target/overload.json); needs root
	@scripts/install.sh clients
	cargo build --release --locked -p wirepath
	scripts/measure-overload.sh $(or $(SUMMARY),target/overload.json)

test-vm: ## only what runs in guests, on every kernel; ARGS="--kernel 6.1 …"
	@scripts/install.sh vm
	cargo run --quiet --locked -p wirepath-vm -- test $(ARGS)
	$(if $(ARGS),,cargo test --workspace --locked --test boots)

test-kernel-debug: ## the module on a kernel that checks itself, built here once (20 CPU-minutes, 3 GB); ARGS="--seconds 600 …"
	@scripts/install.sh debug-kernel
	cargo run --quiet --locked -p wirepath-vm -- test-debug $(ARGS)

vm: ## a shell in a guest; ARGS="--kernel 6.1 --module kernel/module …"; Ctrl-A X ends it
	@scripts/install.sh vm
	cargo run --quiet --locked -p wirepath-vm -- shell $(ARGS)

bpf: ## build the handlers of kernel/bpf into target/bpf, for --handler bpf:FILE, and the handler measured by `assess relay`
	@scripts/install.sh bpf
	$(MAKE) -C kernel/bpf all measured

build: ## wirepath, wirepath-images, wirepath-records, and the libraries for C and LD_PRELOAD, in target/release
	@scripts/install.sh
	cargo build --release --locked -p wirepath -p wirepath-images -p wirepath-records -p wirepath-capi -p wirepath-loan

BUILT = $(or $(CARGO_TARGET_DIR),target)/release
INTO = $(DESTDIR)$(PREFIX)
install: build install-library ## copy them, man pages and completions to folders of PREFIX (PREFIX=/usr/local)
	install -D -m 755 -t "$(INTO)/bin" "$(BUILT)/wirepath" "$(BUILT)/wirepath-images" "$(BUILT)/wirepath-records"
	install -D -m 755 "$(BUILT)/libwirepath_loan.so" "$(INTO)/lib/libwirepath-loan.so"
	scripts/pages.sh "$(BUILT)" "$(INTO)/share"

LIBRARIES ?= $(BUILT)
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
install-library: ## copy only the library for C, from the folder LIBRARIES, to PREFIX/lib and PREFIX/include
	@[ -e "$(LIBRARIES)/libwirepath.so" ] || { echo "install-library: $(LIBRARIES) has no libwirepath.so:" \
	  "run cargo build --release --locked -p wirepath-capi, or name its folder: LIBRARIES=FOLDER" >&2; exit 66; }
	install -D -m 644 -t "$(INTO)/include" crates/capi/include/wirepath.h
	install -D -m 755 "$(LIBRARIES)/libwirepath.so" "$(INTO)/lib/libwirepath.so.$(VERSION)"
	ln -sf libwirepath.so.$(VERSION) "$(INTO)/lib/libwirepath.so.0"
	ln -sf libwirepath.so.0 "$(INTO)/lib/libwirepath.so"
	install -D -m 644 -t "$(INTO)/lib" "$(LIBRARIES)/libwirepath.a"
	@mkdir -p "$(INTO)/lib/pkgconfig"
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/capi/wirepath.pc.in >"$(INTO)/lib/pkgconfig/wirepath.pc"

deb: build ## a Debian package of the programs, the service, man pages and completions, in target/deb
	scripts/deb.sh

python: ## build the Python package, target/wheels/wirepath-….whl, for Python 3.11 and newer
	@scripts/install.sh
	scripts/python.sh wheel

bench: ## measure CPU per client for each data path, beside bare C; ARGS="--json …"; needs root
	@scripts/install.sh bench
	cargo build --release --locked -p wirepath -p wirepath-bench
	target/release/wirepath-bench $(ARGS)

bench-images: ## measure wirepath-images beside servers of the user level, as figure 11 of the paper; ARGS="--json …"
	@scripts/install.sh
	cargo build --release --locked -p wirepath-images -p wirepath-bench-images
	target/release/wirepath-bench-images $(ARGS)

bench-records: ## measure wirepath-records beside servers of the user level, as figure 12 of the paper; ARGS="--json …"
	@scripts/install.sh
	cargo build --release --locked -p wirepath-records -p wirepath-bench-records
	target/release/wirepath-bench-records $(ARGS)

assess: ## measure every data path of this machine, beside bare C; ARGS="--quick …"; needs root
	@scripts/install.sh bench
	cargo build --release --locked -p wirepath
	@mkdir -p target/bench
	cc -O2 -Wall -Wextra -o target/bench/bare bench/bare.c
	target/release/wirepath assess $(ARGS) $(if $(filter host relay,$(ARGS)),,--bare target/bench/bare)

assess-relay: ## measure the stream service beside read and write, HAProxy, nginx, socat; ARGS="--quick …"; needs root
	@scripts/install.sh bench
	cargo build --release --locked -p wirepath
	target/release/wirepath assess relay $(ARGS)

assess-clients: ## find how many clients of wirepath serve this machine carries; ARGS="--quick …"; as root or by sudo
	@scripts/install.sh clients
	cargo build --release --locked -p wirepath
	$(if $(filter 0,$(shell id -u)),,sudo) target/release/wirepath assess clients $(ARGS)

assess-vm: ## measure every data path on every kernel, in guests, by instructions; RESULTS=folder ARGS="--kernel 6.12 …"
	@[ -n "$(RESULTS)" ] || { echo "RESULTS= is missing: the folder that results go to" >&2; exit 64; }
	@scripts/install.sh vm
	cargo run --quiet --locked -p wirepath-vm -- assess $(RESULTS) $(ARGS)

fmt: ## format the source
	cargo fmt --all

lint: ## crates, modules, reasons, promises, links, licences; then clippy
	cargo run --quiet --locked -p wirepath-lint
	cargo clippy --workspace --all-targets --locked -- -D warnings

semver: ## compare the interface of the published crates with that of BASELINE=TAG; needs cargo-semver-checks
	@scripts/semver.sh "$(BASELINE)"

fuzz: ## every fuzz target, then the running server, for MINUTES minutes each (3); installs nightly
	@scripts/fuzz.sh $(MINUTES)
