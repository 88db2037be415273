/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints: /sys/kernel/tracing/events/wirepath/. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM wirepath

#if !defined(_WP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _WP_TRACE_H

#include <linux/tracepoint.h>

struct sock;
struct wp_train;

/* A train was handed to the network: what it was, and the network's answer. */
TRACE_EVENT(wirepath_train,
	TP_PROTO(const struct sock *sk, const struct wp_train *train,
		 bool references, int answer),
	TP_ARGS(sk, train, references, answer),
	TP_STRUCT__entry(
		__field(const void *, sk)
		__field(unsigned int, packets)
		__field(unsigned int, bytes)
		__field(unsigned int, pieces)
		__field(bool, references)
		__field(int, answer)
	),
	TP_fast_assign(
		__entry->sk = sk;
		__entry->packets = train->packets;
		__entry->bytes = train->bytes;
		__entry->pieces = train->pieces;
		__entry->references = references;
		__entry->answer = answer;
	),
	TP_printk("sk=%p packets=%u bytes=%u pieces=%u references=%d answer=%d",
		  __entry->sk, __entry->packets, __entry->bytes,
		  __entry->pieces, __entry->references, __entry->answer)
);

/* A paced run came to a departure, or to its end (packets 0). */
TRACE_EVENT(wirepath_departure,
	TP_PROTO(const void *run, unsigned int packets, s64 late_ns, int answer),
	TP_ARGS(run, packets, late_ns, answer),
	TP_STRUCT__entry(
		__field(const void *, run)
		__field(unsigned int, packets)
		__field(s64, late_ns)
		__field(int, answer)
	),
	TP_fast_assign(
		__entry->run = run;
		__entry->packets = packets;
		__entry->late_ns = late_ns;
		__entry->answer = answer;
	),
	TP_printk("run=%p packets=%u late_ns=%lld answer=%d", __entry->run,
		  __entry->packets, __entry->late_ns, __entry->answer)
);

#endif /* _WP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
