//! Real sockets on the loopback device, no privileges: the server as a user starts it, and clients around it.

mod administration;
mod admission;
mod archive_folders;
mod archives;
mod assess;
mod assess_relay;
mod assess_report;
mod auth;
mod auth_callback;
mod bursts;
mod channels;
mod choice;
mod claps;
mod command;
mod confinement;
mod cuts;
mod demux;
mod ending;
mod faults;
mod floods;
mod formats;
mod handover;
mod hang_up;
mod hostile;
mod hostile_movies;
mod hot_memory;
mod http;
mod http_fields;
mod interleaved;
mod limits;
mod live_archives;
mod load;
mod load_http;
mod loans;
mod log;
mod movies;
mod overload;
mod package;
mod packing;
mod page;
mod playing;
mod popularity;
mod recordings;
mod reference;
mod relay;
mod relay_cache;
mod relay_cache_care;
mod relay_cache_circle;
mod relay_cache_disk;
mod relay_cache_nginx;
mod relay_cache_passing;
mod relay_cache_patience;
mod relay_cache_rules;
mod relay_cache_uploads;
mod relay_config;
mod relay_descriptors;
mod relay_faults;
mod relay_pipes;
mod relay_proxy;
mod relay_proxy_clients;
mod relay_proxy_ends;
mod relay_proxy_leaving;
mod relay_proxy_patience;
mod reload;
mod reload_catalog;
mod replay;
mod rtcp;
mod rtsp;
mod rtsp_multicast;
mod scale;
mod scripts;
mod seeking;
mod sending;
mod session_memory;
mod signed_urls;
mod soak;
mod speed;
mod srtp;
mod tls;
mod tls_faults;
mod tunnel;
mod user;

use std::process::ExitCode;

use libtest_mimic::Trial;

/// Tests that run side by side.
const TOGETHER: &[fn() -> Vec<Trial>] = &[
    administration::trials,
    admission::trials,
    archive_folders::trials,
    archives::trials,
    channels::trials,
    claps::trials,
    assess::trials,
    assess_relay::trials,
    assess_report::trials,
    auth::trials,
    auth_callback::trials,
    bursts::trials,
    choice::trials,
    command::trials,
    confinement::trials,
    cuts::trials,
    ending::trials,
    faults::trials,
    formats::trials,
    handover::trials,
    hang_up::trials,
    hot_memory::trials,
    http::trials,
    http_fields::trials,
    interleaved::trials,
    limits::trials,
    live_archives::trials,
    load::trials,
    load_http::trials,
    loans::trials,
    log::trials,
    demux::trials,
    movies::trials,
    package::trials,
    packing::trials,
    page::trials,
    playing::trials,
    popularity::trials,
    recordings::trials,
    reference::trials,
    relay::trials,
    relay_config::trials,
    relay_descriptors::trials,
    relay_faults::trials,
    relay_pipes::trials,
    relay_proxy::trials,
    relay_proxy_clients::trials,
    relay_proxy_ends::trials,
    relay_proxy_leaving::trials,
    relay_proxy_patience::trials,
    relay_cache::trials,
    relay_cache_care::trials,
    relay_cache_circle::trials,
    relay_cache_disk::trials,
    relay_cache_nginx::trials,
    relay_cache_passing::trials,
    relay_cache_patience::trials,
    relay_cache_rules::trials,
    relay_cache_uploads::trials,
    reload::trials,
    reload_catalog::trials,
    replay::trials,
    rtcp::trials,
    rtsp::trials,
    rtsp_multicast::trials,
    scale::trials,
    scripts::trials,
    seeking::trials,
    speed::trials,
    sending::trials,
    signed_urls::trials,
    tls::trials,
    srtp::trials,
    tls_faults::trials,
    tunnel::trials,
    user::trials,
];

/// Tests that run one after another.
const ALONE: &[fn() -> Vec<Trial>] = &[
    faults::alone,
    floods::alone,
    hostile::alone,
    hostile_movies::alone,
    overload::alone,
    packing::alone,
    relay_config::alone,
    session_memory::alone,
    soak::alone,
];

fn main() -> ExitCode {
    wirepath_tests::trial::run(all(TOGETHER), all(ALONE))
}

fn all(modules: &[fn() -> Vec<Trial>]) -> Vec<Trial> {
    modules.iter().flat_map(|trials| trials()).collect()
}
