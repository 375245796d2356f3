//! Samples the resident memory of the server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Signal;
use setpoint_conformance::fuzz::Memory;
use setpoint_conformance::time::sleep;

use crate::soak::Soak;

const INTERVAL: Duration = Duration::from_millis(100);
/// A server that uses so many times its limit is killed, before it takes the memory of the machine.
const FATAL: u64 = 2;

/// Samples until stopped. A limit that is passed is a violation once per pass.
pub(crate) fn run(soak: &Soak<'_>) {
    let mut is_over = false;
    while !soak.control.is_stopped() {
        let pid = soak.process.try_lock().and_then(|process| process.pid());
        if let Some(memory) = pid.and_then(Memory::of).map(Memory::megabytes) {
            soak.metrics.max_memory.fetch_max(memory, Ordering::Relaxed);
            let limit = soak.args.max_memory;
            if memory > limit && !is_over {
                soak.violation(format!("the server uses {memory} MB, more than {limit}"));
            }
            is_over = memory > limit;
            if memory > limit * FATAL {
                end(soak);
            }
        }
        sleep(INTERVAL);
    }
}

fn end(soak: &Soak<'_>) {
    let killed = soak.process.lock().signal(Signal::KILL);
    if let Err(error) = killed {
        soak.violation(format!("cannot kill the server: {error:#}"));
    }
}
