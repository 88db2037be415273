#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wirepath_fuzz::playlist::fuzz(data));
