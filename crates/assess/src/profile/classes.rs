//! Classes of kernel functions: copying, kernel entry and exit, network stack.
//!
//! A single table, so that each line can be reviewed. A name that ends with `*` is a prefix; compiler
//! suffixes (`.constprop.0`, `.isra.0`, `.cold`) are ignored. The first matching line decides. Functions
//! without a line (page cache, file system, memory, locks, scheduler) belong to none of the three classes.

use Class::{Copying, Entering, Network};

/// Class of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Copies of payload.
    Copying,
    /// Kernel entry and exit.
    Entering,
    /// Network stack, or driver of a network device.
    Network,
    /// User space.
    User,
    /// Everything else.
    Other,
}

/// Class, names, and reason.
type Rule = (Class, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        Copying,
        "rep_movs_alternative copy_user_* __copy_user_* raw_copy_* __arch_copy_*",
        "the instructions that copy between user space and kernel; by kernel version and architecture",
    ),
    (
        Copying,
        "_copy_from_iter* _copy_to_iter* copy_page_from_iter* copy_page_to_iter* _copy_mc_to_iter",
        "with fast short `rep movsb` the instructions stand in these themselves: read() and send()",
    ),
    (
        Copying,
        "csum_and_copy* csum_partial_copy* skb_copy_and_csum*",
        "copies that sum on the way, where no device computes checksums",
    ),
    (
        Copying,
        "skb_copy* __skb_copy* __pskb_copy* __pskb_pull_tail skb_store_bits skb_linearize*",
        "within the kernel: buffers that must be in one place, lent pages that may not be kept",
    ),
    (
        Copying,
        "memcpy* __memcpy* memmove* __memmove* __pi_memcpy* __pi_memmove* copy_page copy_mc_*",
        "the kernel's own copying",
    ),
    (
        Entering,
        "entry_SYSCALL_64* entry_SYSENTER* do_syscall_64 x64_sys_call __x64_sys_* __se_sys_* __do_sys_*",
        "x86: from `syscall` to the function that does the work, and back; the wrappers unpack registers, and hold the work \
         only where there is next to none",
    ),
    (
        Entering,
        "el0_svc* do_el0_svc* el0t_64_sync* invoke_syscall* __arm64_sys_* ret_to_user",
        "the same on Arm",
    ),
    (
        Entering,
        "syscall_enter_* syscall_exit_* syscall_trace_* exit_to_user_mode* arch_exit_to_user_mode*",
        "what every architecture does on the way in and out",
    ),
    (
        Entering,
        "srso_* retbleed_* zen_untrain_ret entry_untrain_ret entry_ibpb clear_bhb_loop* its_*thunk* \
         __x86_return_thunk __x86_indirect_thunk* __x86_indirect_its_thunk*",
        "the price of being entered by strangers: mitigations, paid on entry and at the returns that follow",
    ),
    (
        Network,
        "udp* __udp* tcp* __tcp* ip_* __ip_* ip4_* ip6_* __ip6_* ipv4_* ipv6_* inet_* inet6_* __inet* \
         raw_local_deliver icmp* bbr_* cubictcp_* bictcp_*",
        "transport and network layers, and congestion control",
    ),
    (
        Network,
        "fib_* fib6_* dst_* rt_cache_* neigh_* __neigh_* arp_* eth_* nf_* nft_* ipt_*",
        "routes, neighbours, packet filters",
    ),
    (
        Network,
        "sock_* __sock_* sk_* __sk_* sockfd_* lock_sock* release_sock security_sock*",
        "sockets and their locks",
    ),
    (
        Network,
        "__sys_send* ___sys_send* ____sys_send* __sys_recv* ___sys_recv* ____sys_recv* sendmsg_copy_* \
         copy_msghdr* __copy_msghdr* move_addr_to_kernel splice_to_socket",
        "what calls of sockets do before a protocol is asked",
    ),
    (
        Network,
        "skb_* __skb_* __alloc_skb* alloc_skb* __build_skb* build_skb* kfree_skb* __kfree_skb* consume_skb \
         __consume_* msg_zerocopy_* net_zcopy_*",
        "packet buffers: made, cut, queued, freed, and their owners told",
    ),
    (Network, "csum_partial* do_csum* csum_ipv6_magic csum_tcpudp_*", "checksums that no device computes"),
    (
        Network,
        "dev_* __dev_* netdev_* __netdev_* netif_* __netif_* validate_xmit_* xmit_one dql_* \
         qdisc_* __qdisc_* sch_* pfifo_* fq_* tcf_* cls_bpf_* mq_*",
        "devices, their features and their queues",
    ),
    (
        Network,
        "napi_* __napi_* net_rx_action net_tx_action process_backlog enqueue_to_backlog gro_*",
        "packets that arrive, which whoever sends to itself pays too",
    ),
    (
        Network,
        "ifb_* dummy_* veth_* loopback_* virtnet_* virtqueue_* start_xmit xmit_skb",
        "drivers that assessments meet",
    ),
];

/// Class of a kernel function.
pub(super) fn of_kernel(name: &str) -> Class {
    let bare = name.split('.').next().unwrap_or(name);
    let rule =
        RULES.iter().find(|(_, patterns, _)| patterns.split_whitespace().any(|pattern| fits(bare, pattern)));
    rule.map_or(Class::Other, |(class, ..)| *class)
}

/// Returns whether a name matches a pattern; `*` stands for any characters, at the end or once within.
fn fits(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let start = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(start) else { return false };
    let mut open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_seen_in_profiles_are_where_they_belong() {
        for (class, names) in [
            (
                Class::Copying,
                "rep_movs_alternative copy_user_enhanced_fast_string copy_user_generic_unrolled _copy_from_iter \
                 _copy_to_iter copy_page_to_iter csum_and_copy_from_iter_full skb_copy_ubufs memcpy_orig __memcpy \
                 __arch_copy_from_user __pi_memcpy_generic copy_page_from_iter_atomic",
            ),
            (
                Class::Entering,
                "entry_SYSCALL_64 entry_SYSCALL_64_after_hwframe do_syscall_64 x64_sys_call __x64_sys_getpid \
                 syscall_exit_to_user_mode syscall_enter_from_user_mode srso_return_thunk srso_alias_safe_ret \
                 retbleed_return_thunk clear_bhb_loop el0_svc invoke_syscall.constprop.0 its_return_thunk",
            ),
            (
                Class::Network,
                "udp_sendmsg udp_send_skb.isra.0 __ip_append_data ip_finish_output2 ip_generic_getfrag skb_release_data \
                 __alloc_skb sock_wfree dev_hard_start_xmit __dev_queue_xmit loopback_xmit ifb_xmit dummy_xmit \
                 veth_xmit tcp_sendmsg_locked __qdisc_run net_rx_action process_backlog csum_partial sk_dst_check \
                 __sys_sendto splice_to_socket validate_xmit_skb.constprop.0 ipv4_mtu",
            ),
            (
                Class::Other,
                "filemap_read ext4_file_read_iter vfs_read kmem_cache_alloc_node _raw_spin_lock __rcu_read_lock rt_mutex_lock \
                 finish_task_switch.isra.0 copy_process __check_object_size ipi_send_mask [unknown]",
            ),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(of_kernel(name), class, "{name}");
            }
        }
    }

    /// Promise: One table assigns functions to profile shares, each line with its reason.
    #[test]
    fn every_line_has_a_reason_and_is_reached() {
        for (index, (_, patterns, reason)) in RULES.iter().enumerate() {
            assert!(reason.split_whitespace().count() >= 3, "{patterns:?} for {reason:?}");
            for pattern in patterns.split_whitespace() {
                let example = pattern.replace('*', "x");
                let takes = |(_, names, _): &Rule| names.split_whitespace().any(|name| fits(&example, name));
                assert_eq!(RULES.iter().position(takes), Some(index), "another line takes {pattern}");
            }
        }
    }

    #[test]
    fn stars_stand_for_any_letters() {
        assert!(fits("its_return_thunk", "its_*thunk*") && fits("udp", "udp*") && fits("udp", "udp"));
        assert!(!fits("udp_sendmsg", "udp") && !fits("xudp", "udp*") && !fits("its_return", "its_*thunk*"));
    }
}
