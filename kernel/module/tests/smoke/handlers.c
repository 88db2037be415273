// SPDX-License-Identifier: GPL-2.0
/*
 * Runs by a handler that is an eBPF program: packets dropped and headers
 * rewritten, in order and once each; programs that the verifier refuses; a
 * handler that goes. Loaded by bpf(2) alone.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "smoke.h"

/* Of Linux 6.12; headers to build with may be older. */
#define ATTACH_STRUCT_OPS 44
#define LINKED (1U << 13)
#define VALUE_OF_MODULE (1U << 15)

#define VMLINUX "/sys/kernel/btf/vmlinux"
#define MODULE "/sys/kernel/btf/wirepath"

/* BTF of the kernel and, behind it, of the module: ids and strings go on. */
struct types {
	unsigned char *bytes[2];
	const char *strings[2];
	__u32 string_bytes, count;	/* of the kernel's own */
};

/* What is needed of struct_ops: the ids of its types, and where its parts are. */
struct target {
	int btf;
	__u32 ops, value, value_bytes, data, name;
};

static unsigned char *read_all(const char *name)
{
	unsigned char *bytes = malloc(32 << 20);
	size_t count = 0;
	ssize_t some;
	int file = open(name, O_RDONLY);

	while (file >= 0 && (some = read(file, bytes + count, (32 << 20) - count)) > 0)
		count += some;
	if (file < 0 || !count) {
		free(bytes);
		return NULL;
	}
	close(file);
	return bytes;
}

static const struct btf_type *next_type(const struct btf_type *type)
{
	static const unsigned char more[] = {
		[BTF_KIND_INT] = 4, [BTF_KIND_ARRAY] = 12, [BTF_KIND_VAR] = 4,
		[BTF_KIND_DECL_TAG] = 4,
	};
	static const unsigned char each[] = {
		[BTF_KIND_STRUCT] = 12, [BTF_KIND_UNION] = 12, [BTF_KIND_ENUM] = 8,
		[BTF_KIND_FUNC_PROTO] = 8, [BTF_KIND_DATASEC] = 12, [BTF_KIND_ENUM64] = 12,
	};
	__u32 kind = BTF_INFO_KIND(type->info), bytes = sizeof(*type);

	bytes += kind < sizeof(more) ? more[kind] : 0;
	bytes += (kind < sizeof(each) ? each[kind] : 0) * BTF_INFO_VLEN(type->info);
	return (const struct btf_type *)((const unsigned char *)type + bytes);
}

static const char *string_of(const struct types *types, __u32 offset)
{
	return offset < types->string_bytes ? types->strings[0] + offset :
					      types->strings[1] + offset - types->string_bytes;
}

/* The struct of this name in one of the two, and its id; `name` NULL counts all. */
static const struct btf_type *find(struct types *types, int which, const char *name, __u32 *id)
{
	const struct btf_header *header = (struct btf_header *)types->bytes[which];
	const unsigned char *start = types->bytes[which] + header->hdr_len + header->type_off;
	const struct btf_type *type = (const struct btf_type *)start;

	*id = which ? types->count : 0;
	for (; (const unsigned char *)type < start + header->type_len; type = next_type(type)) {
		++*id;
		if (name && BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT &&
		    !strcmp(string_of(types, type->name_off), name))
			return type;
	}
	return NULL;
}

static __u32 offset_of(const struct types *types, const struct btf_type *type, const char *name)
{
	const struct btf_member *member = (const struct btf_member *)(type + 1);

	for (__u32 i = 0; i < BTF_INFO_VLEN(type->info); i++, member++)
		if (!strcmp(string_of(types, member->name_off), name))
			return member->offset / 8;
	return ~0U;
}

static int bpf(int command, void *attribute, unsigned int bytes)
{
	return syscall(SYS_bpf, command, attribute, bytes);
}

/* The BTF object of the module, by its name. */
static int open_btf(void)
{
	union bpf_attr attribute = { 0 };

	while (!bpf(BPF_BTF_GET_NEXT_ID, &attribute, sizeof(attribute))) {
		char name[64] = "";
		struct bpf_btf_info info = { .name = (__u64)(size_t)name, .name_len = sizeof(name) };
		union bpf_attr asked = { .btf_id = attribute.next_id };
		int btf = bpf(BPF_BTF_GET_FD_BY_ID, &asked, sizeof(asked));

		asked = (union bpf_attr){ .info.bpf_fd = btf, .info.info_len = sizeof(info),
					  .info.info = (__u64)(size_t)&info };
		if (!bpf(BPF_OBJ_GET_INFO_BY_FD, &asked, sizeof(asked)) && !strcmp(name, "wirepath"))
			return btf;
		close(btf);
		attribute.start_id = attribute.next_id;
	}
	return -1;
}

static int find_target(struct target *target)
{
	struct types types = { .bytes = { read_all(VMLINUX), read_all(MODULE) } };
	const struct btf_type *ops, *value;

	if (!types.bytes[0] || !types.bytes[1])
		return -1;
	for (int i = 0; i < 2; i++) {
		const struct btf_header *header = (struct btf_header *)types.bytes[i];

		types.strings[i] = (char *)types.bytes[i] + header->hdr_len + header->str_off;
		if (i == 0)
			types.string_bytes = header->str_len;
	}
	find(&types, 0, NULL, &types.count);
	ops = find(&types, 1, "wp_handler_ops", &target->ops);
	value = find(&types, 1, "bpf_struct_ops_wp_handler_ops", &target->value);
	if (!ops || !value)
		return -1;
	target->value_bytes = value->size;
	target->data = offset_of(&types, value, "data");
	target->name = target->data + offset_of(&types, ops, "name");
	target->btf = open_btf();
	free(types.bytes[0]);
	free(types.bytes[1]);
	return target->btf < 0 || target->data == ~0U ? -1 : 0;
}

static int load_with(const struct target *target, const struct bpf_insn *code, __u32 count,
		     __u32 flags)
{
	static char log[65536];
	union bpf_attr attribute = {
		.prog_type = BPF_PROG_TYPE_STRUCT_OPS,
		.insns = (__u64)(size_t)code,
		.insn_cnt = count,
		.license = (__u64)(size_t)"GPL",
		.attach_btf_id = target->ops,
		.attach_btf_obj_fd = target->btf,
		.log_buf = (__u64)(size_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
		.prog_flags = flags,
	};

	return bpf(BPF_PROG_LOAD, &attribute, sizeof(attribute));
}

static int load(const struct target *target, const struct bpf_insn *code, __u32 count)
{
	return load_with(target, code, count, 0);
}

/* Types of one int: a map of struct_ops wants some of its maker's own. */
static int own_types(void)
{
	static const struct {
		struct btf_header header;
		struct btf_type type;
		__u32 bits;
		char strings[5];
	} types = {
		.header = { .magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(types.header),
			    .type_len = 16, .str_off = 16, .str_len = sizeof(types.strings) },
		.type = { .name_off = 1, .info = BTF_KIND_INT << 24, .size = 4 },
		.bits = 32,
		.strings = "\0int",
	};
	union bpf_attr attribute = { .btf = (__u64)(size_t)&types,
				     .btf_size = sizeof(types.header) + 16 + sizeof(types.strings) };

	return bpf(BPF_BTF_LOAD, &attribute, sizeof(attribute));
}

/* Attaches a program under a name: a descriptor, which detaches it when it is closed. */
static int attach(const struct target *target, int program, const char *name)
{
	unsigned char attribute[80] = { 0 }, *value = calloc(1, target->value_bytes);
	union bpf_attr update = { 0 };
	__u32 create[] = { BPF_MAP_TYPE_STRUCT_OPS, 4, target->value_bytes, 1,
			   LINKED | VALUE_OF_MODULE };
	__u32 link[4] = { 0, 0, ATTACH_STRUCT_OPS };
	int map, types = own_types();
	__u32 key = 0;

	memcpy(attribute, create, sizeof(create));
	memcpy(attribute + 48, &types, 4);
	memcpy(attribute + 60, &target->value, 4);
	memcpy(attribute + 72, &target->btf, 4);
	map = bpf(BPF_MAP_CREATE, attribute, sizeof(attribute));
	close(types);
	memcpy(value + target->data, &program, sizeof(program));
	strncpy((char *)value + target->name, name, WIREPATH_HANDLER_NAME_BYTES);
	update.map_fd = map;
	update.key = (__u64)(size_t)&key;
	update.value = (__u64)(size_t)value;
	link[0] = map;
	if (map < 0 || bpf(BPF_MAP_UPDATE_ELEM, &update, sizeof(update)))
		map = -1;
	else
		map = bpf(BPF_LINK_CREATE, link, sizeof(link));
	free(value);
	if ((int)link[0] >= 0) {
		int error = errno;

		close(link[0]);
		errno = error;
	}
	return map;
}

#define AT(field) offsetof(struct wirepath_packet, field)
#define INSN(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, s, o) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define MOVE(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* Drops every other packet, and numbers the others anew: their count is its state. */
static const struct bpf_insn thins[] = {
	LOAD(BPF_DW, 6, 1, 0),
	LOAD(BPF_DW, 2, 6, AT(number)),
	INSN(BPF_ALU64 | BPF_AND | BPF_K, 2, 0, 0, 1),
	MOVE(0, WIREPATH_HANDLER_DROP),
	INSN(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 6, 0),
	LOAD(BPF_DW, 3, 6, AT(state)),
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, 1),
	STORE(BPF_DW, 6, 3, AT(state)),
	INSN(BPF_ALU | BPF_END | BPF_TO_BE, 3, 0, 0, 16),
	STORE(BPF_H, 6, 3, AT(header) + 2),
	MOVE(0, WIREPATH_HANDLER_PASS),
	EXIT,
};

/* Answers with what it sees of the payload: 1 and 0 pass and drop. */
static const struct bpf_insn looks[] = {
	LOAD(BPF_DW, 6, 1, 0), LOAD(BPF_B, 0, 6, AT(payload)),
	INSN(BPF_ALU64 | BPF_AND | BPF_K, 0, 0, 0, 1), EXIT,
};
static const struct bpf_insn passes[] = { MOVE(0, WIREPATH_HANDLER_PASS), EXIT };
static const struct bpf_insn says_two[] = { MOVE(0, 2), EXIT };
static const struct bpf_insn writes_number[] = {
	LOAD(BPF_DW, 6, 1, 0), MOVE(0, 1), STORE(BPF_DW, 6, 0, AT(number)), EXIT,
};
static const struct bpf_insn writes_payload[] = {
	LOAD(BPF_DW, 6, 1, 0), MOVE(0, 1), STORE(BPF_B, 6, 0, AT(payload)), EXIT,
};
static const struct bpf_insn writes_across[] = {
	LOAD(BPF_DW, 6, 1, 0), MOVE(0, 1), STORE(BPF_DW, 6, 0, AT(header) + 60), EXIT,
};
static const struct bpf_insn reads_behind[] = {
	LOAD(BPF_DW, 6, 1, 0), LOAD(BPF_DW, 0, 6, sizeof(struct wirepath_packet)), EXIT,
};

static int start_by(struct wirepath_send *send, __u64 rate, const char *name)
{
	struct wirepath_start start = start_of(send, rate);

	start.handler = (__u64)(size_t)name;
	return ioctl(device, WIREPATH_START, &start);
}

static struct wirepath_status wait_and_close(int run)
{
	struct wirepath_status status = status_of(run, WIREPATH_WAIT);

	close(run);
	return status;
}

/* With trains, and packet by packet. */
static void thinned(const struct data *data, struct pair pair, unsigned int train_packets)
{
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(pair.from, data->file, 33, 200500),
						 1000, train_packets), &rtp);
	struct wirepath_status status;
	int run = start_by(&send, 100000000, "thins");

	CHECK(run >= 0);
	header.sequence = 1;
	for (int i = 0; i < 201; i += 2) {
		expect_rtp(pair.to, &header, 0, data->bytes + 33 + i * 1000, i == 200 ? 500 : 1000);
		/* The engine's timestamps go on with packets that are dropped. */
		header.timestamp += header.timestamp_step;
	}
	CHECK(nothing_more(pair.to));
	status = wait_and_close(run);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "error %d", status.error);
	CHECK(status.packets == 101 && status.dropped_packets == 100 && status.rtp_packets == 101,
	      "%llu sent, %llu dropped", status.packets, status.dropped_packets);
	CHECK(status.bytes == 100500 && status.rtp_octets == 100500 && status.position == 33 + 200500);
	CHECK(status.rtp_sequence == (unsigned short)(rtp.sequence + 201));
}

/* Without headers, by what the payload begins with. */
static void selected(const struct data *data, struct pair pair)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 300000), 1000, 64);
	struct wirepath_status status;
	unsigned char packet[65536];
	unsigned int passed = 0;
	int run = start_by(&send, 100000000, "looks");

	CHECK(run >= 0);
	status = wait_and_close(run);
	for (int i = 0; i < 300; i++) {
		if (!(data->bytes[i * 1000] & 1))
			continue;
		CHECK(receive(pair.to, packet) == 1000 &&
		      !memcmp(packet, data->bytes + i * 1000, 1000), "packet %d", i);
		passed++;
	}
	CHECK(nothing_more(pair.to));
	CHECK(status.packets == passed && status.dropped_packets == 300 - passed);
}

static void refused(const struct target *target)
{
	CHECK(load(target, writes_number, COUNT(writes_number)) < 0 && errno == EACCES);
	CHECK(load(target, writes_payload, COUNT(writes_payload)) < 0 && errno == EACCES);
	CHECK(load(target, writes_across, COUNT(writes_across)) < 0 && errno == EACCES);
	CHECK(load(target, reads_behind, COUNT(reads_behind)) < 0 && errno == EACCES);
	/* Runs call handlers where nothing may sleep. */
	CHECK(load_with(target, passes, COUNT(passes), BPF_F_SLEEPABLE) < 0 && errno == EINVAL);
}

static void named(const struct target *target, const struct data *data, struct pair pair)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 3000), 1000, 0);
	int program = load(target, passes, COUNT(passes)), handler;

	CHECK(start_by(&send, 1000000, "passes") < 0 && errno == ENOENT);
	CHECK(start_by(&send, 1000000, "sixteen letters!") < 0 && errno == EINVAL);
	CHECK(start_by(&send, 1000000, "") < 0 && errno == EINVAL);
	CHECK(start_by(&send, 1000000, (char *)8) < 0 && errno == EFAULT);
	handler = attach(target, program, "passes");
	CHECK(handler >= 0);
	CHECK(attach(target, program, "passes") < 0 && errno == EEXIST);
	CHECK(attach(target, program, "") < 0 && errno == EINVAL);
	CHECK(attach(target, program, "sixteen letters!") < 0 && errno == EINVAL);
	CHECK(wait_and_close(start_by(&send, 1000000, "passes")).packets == 3);
	expect_plain(pair.to, data->bytes, 3000, 1000);
	close(handler);
	CHECK(start_by(&send, 1000000, "passes") < 0 && errno == ENOENT);
	close(program);
}

/* Detached while a run goes; and a verdict that is none. */
static void ended(const struct target *target, const struct data *data, struct pair pair)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 1000000), 1000, 0);
	int program = load(target, passes, COUNT(passes)), handler = attach(target, program, "passes");
	struct wirepath_status status;
	unsigned char packet[65536];
	int run = start_by(&send, 100000, "passes");

	CHECK(handler >= 0 && run >= 0);
	CHECK(receive(pair.to, packet) == 1000);
	close(handler);
	status = wait_and_close(run);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == ENOLINK, "error %d", status.error);
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
	close(program);
	program = load(target, says_two, COUNT(says_two));
	handler = attach(target, program, "two");
	status = wait_and_close(start_by(&send, 100000, "two"));
	CHECK(status.error == EPROTO && status.packets == 0, "error %d", status.error);
	close(handler);
	close(program);
}

void handlers(const struct data *data, struct pair pair)
{
	struct wirepath_query query = { .size = sizeof(query) };
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 3000), 1000, 0);
	struct target target = { 0 };
	int thin, look;

	CHECK(!ioctl(device, WIREPATH_QUERY, &query));
	if (!(query.features & WIREPATH_FEATURE_HANDLERS)) {
		CHECK(start_by(&send, 1000000, "thins") < 0 && errno == EOPNOTSUPP);
		SKIP("no handlers on this kernel, or no BTF in the module");
		return;
	}
	if (find_target(&target))
		die("the types of struct_ops");
	refused(&target);
	named(&target, data, pair);
	thin = attach(&target, load(&target, thins, COUNT(thins)), "thins");
	look = attach(&target, load(&target, looks, COUNT(looks)), "looks");
	CHECK(thin >= 0 && look >= 0);
	thinned(data, pair, 0);
	thinned(data, pair, 64);
	selected(data, pair);
	close(thin);
	close(look);
	ended(&target, data, pair);
	close(target.btf);
}
