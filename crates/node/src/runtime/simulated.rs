//! [`SimulatedRuntime`]: runs no containers: pods start and stop by the clock alone.
//!
//! Everything else about them is real, so that a cluster of thousands of nodes behaves as one would, on one machine.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Key;

use super::containers_state::containers_state;
use super::{ContainersState, Error, KillPod, Progress, Runtime, RuntimeFuture, Sandbox, SyncPod};
use crate::config::Machine;

/// Pods that take a while to start and to stop, and use no resources in between.
#[derive(Debug, Default)]
pub struct SimulatedRuntime {
    /// How long a pod takes to start.
    pub starting: Duration,
    /// How long a pod takes to stop, if its grace period is not shorter.
    pub stopping: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<Key, SimulatedPod>,
    /// The pod addresses in use on each machine, by its number: exactly those of its `pods`.
    addresses: HashMap<u32, AddressBitmap>,
}

/// A pod that is starting, running or stopping.
#[derive(Debug)]
struct SimulatedPod {
    uid: CompactString,
    machine: u32,
    /// The host part of its address on the machine.
    host: u8,
    address: Ipv4Addr,
    started: Timestamp,
    /// Since when it is stopping.
    stopped: Option<Timestamp>,
}

/// One bit for each host part of an address that is in use.
#[derive(Debug, Default)]
struct AddressBitmap([u64; 4]);

// === impl SimulatedRuntime ===

impl SimulatedRuntime {
    pub fn new(starting: Duration, stopping: Duration) -> Self {
        Self {
            starting,
            stopping,
            ..Self::default()
        }
    }

    fn start_pod(&self, request: SyncPod<'_>) -> Result<Progress<Sandbox>, Error> {
        let uid = request.pod.metadata.uid.as_str();
        let mut state = self.state.lock();
        if state.pods.get(request.key).is_some_and(|pod| pod.uid != uid) {
            state.remove(request.key);
        }
        if !state.pods.contains_key(request.key) {
            state.allocate(&request, uid)?;
        }
        let pod = &state.pods[request.key];
        match left(request.now, pod.started, self.starting) {
            Some(wait) => Ok(Progress::Wait(wait)),
            None => Ok(Progress::Done(Sandbox {
                containers: containers_state(request.now, pod.started, request.pod),
                ..pod.sandbox()
            })),
        }
    }

    fn stop_pod(&self, request: KillPod<'_>) -> Progress<()> {
        let mut state = self.state.lock();
        let Some(pod) = state.pods.get_mut(request.key) else {
            return Progress::Done(());
        };
        if pod.uid != request.uid {
            return Progress::Done(());
        }
        let since = *pod.stopped.get_or_insert(request.now);
        if let Some(wait) = left(request.now, since, self.stopping.min(request.grace)) {
            return Progress::Wait(wait);
        }
        state.remove(request.key);
        Progress::Done(())
    }
}

impl Runtime for SimulatedRuntime {
    fn start(&self, request: SyncPod<'_>) -> RuntimeFuture<'_, Sandbox> {
        let started = self.start_pod(request);
        Box::pin(async move { started })
    }

    fn stop(&self, request: KillPod<'_>) -> RuntimeFuture<'_, ()> {
        let stopped = self.stop_pod(request);
        Box::pin(async move { Ok(stopped) })
    }

    fn forget(&self, key: &Key) {
        self.state.lock().remove(key);
    }
}

/// What is left of a time span that began at `began`.
fn left(now: Timestamp, began: Timestamp, span: Duration) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    span.checked_sub(passed).filter(|left| !left.is_zero())
}

// === impl State ===

impl State {
    /// Allocates an address for the pod. A pod whose status already has an address and a start time keeps them: so a
    /// restarted agent adopts the pods that its predecessor left running.
    fn allocate(&mut self, request: &SyncPod<'_>, uid: &str) -> Result<(), Error> {
        let machine = request.machine;
        let reported = reported(request);
        let addresses = self.addresses.entry(machine.number).or_default();
        let host = reported
            .and_then(|(address, _)| addresses.take(machine, address))
            .or_else(|| addresses.take_free())
            .ok_or_else(|| Error::NoAddress(machine.name.to_string()))?;
        let pod = SimulatedPod {
            uid: uid.into(),
            machine: machine.number,
            host,
            address: machine.pod_address(host),
            started: reported.map_or(request.now, |(_, started)| started),
            stopped: None,
        };
        self.pods.insert(request.key.clone(), pod);
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        let Some(pod) = self.pods.remove(key) else {
            return;
        };
        if let Some(addresses) = self.addresses.get_mut(&pod.machine) {
            addresses.release(pod.host);
        }
    }
}

/// The address and the start time in the pod's status.
fn reported(request: &SyncPod<'_>) -> Option<(Ipv4Addr, Timestamp)> {
    let status = &request.pod.status;
    let address = status.pod_ip.as_ref()?.parse().ok()?;
    Some((address, status.start_time.as_ref()?.0))
}

// === impl SimulatedPod ===

impl SimulatedPod {
    fn sandbox(&self) -> Sandbox {
        Sandbox {
            address: self.address,
            started: self.started,
            scheme: "simulated",
            containers: ContainersState::Running {
                since: self.started,
                restarts: 0,
                recheck_after: None,
            },
        }
    }
}

// === impl AddressBitmap ===

impl AddressBitmap {
    /// Allocates this address, if it belongs to the machine and is free.
    fn take(&mut self, machine: &Machine, address: Ipv4Addr) -> Option<u8> {
        let host = address.octets()[3];
        let is_own = machine.pod_address(host) == address && host > 0;
        (is_own && !self.is_taken(host)).then(|| self.mark(host))
    }

    fn take_free(&mut self) -> Option<u8> {
        let free = (1..=254).find(|host| !self.is_taken(*host))?;
        Some(self.mark(free))
    }

    fn release(&mut self, host: u8) {
        let (word, bit) = word_and_bit(host);
        self.0[word] &= !bit;
    }

    fn mark(&mut self, host: u8) -> u8 {
        let (word, bit) = word_and_bit(host);
        self.0[word] |= bit;
        host
    }

    fn is_taken(&self, host: u8) -> bool {
        let (word, bit) = word_and_bit(host);
        self.0[word] & bit != 0
    }
}

fn word_and_bit(host: u8) -> (usize, u64) {
    (usize::from(host / 64), 1 << (host % 64))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::pod::Pod;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn pod(uid: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = uid.to_owned();
        pod
    }

    fn start(
        runtime: &SimulatedRuntime,
        name: &str,
        pod: &Pod,
        now: i64,
    ) -> Result<Progress<Sandbox>, Error> {
        runtime.start_pod(SyncPod {
            machine: &Machine::new("n", 7),
            key: &Key::new("default", name),
            pod,
            now: at(now),
        })
    }

    #[track_caller]
    fn address(runtime: &SimulatedRuntime, name: &str, pod: &Pod) -> String {
        match start(runtime, name, pod, 1000).unwrap() {
            Progress::Done(sandbox) => sandbox.address.to_string(),
            Progress::Wait(wait) => panic!("still {wait:?} to wait"),
        }
    }

    #[test]
    fn a_pod_comes_up_after_its_time_and_keeps_its_address() {
        let runtime = SimulatedRuntime::new(Duration::from_secs(3), Duration::ZERO);
        let wait = Progress::Wait(Duration::from_secs(3));
        assert_eq!(start(&runtime, "a", &pod("1"), 0), Ok(wait));
        let first = address(&runtime, "a", &pod("1"));
        assert_eq!(address(&runtime, "a", &pod("1")), first);
    }

    #[test]
    fn no_two_pods_share_an_address_and_a_free_one_is_used_again() {
        let runtime = SimulatedRuntime::default();
        assert_eq!(address(&runtime, "a", &pod("1")), "10.64.7.1");
        assert_eq!(address(&runtime, "b", &pod("2")), "10.64.7.2");
        runtime.forget(&Key::new("default", "a"));
        assert_eq!(address(&runtime, "c", &pod("3")), "10.64.7.1");
    }

    #[test]
    fn a_pod_with_an_address_in_its_status_keeps_it_across_a_restart() {
        let mut old = pod("1");
        old.status = PodStatus {
            pod_ip: Some("10.64.7.9".to_owned()),
            start_time: Some(Time(at(5))),
            ..PodStatus::default()
        };
        assert_eq!(address(&SimulatedRuntime::default(), "a", &old), "10.64.7.9");
    }

    #[test]
    fn a_pod_goes_down_within_its_grace_period() {
        let runtime = SimulatedRuntime::new(Duration::ZERO, Duration::from_secs(30));
        let stop = |now, grace| {
            runtime.stop_pod(KillPod {
                key: &Key::new("default", "a"),
                uid: "1",
                grace: Duration::from_secs(grace),
                now: at(now),
            })
        };
        assert_eq!(stop(0, 60), Progress::Done(()));
        start(&runtime, "a", &pod("1"), 0).unwrap();
        assert_eq!(stop(0, 60), Progress::Wait(Duration::from_secs(30)));
        assert_eq!(stop(10, 60), Progress::Wait(Duration::from_secs(20)));
        assert_eq!(stop(10, 5), Progress::Done(()));
    }

    #[test]
    fn a_machine_without_free_addresses_is_an_error() {
        let runtime = SimulatedRuntime::default();
        for n in 0..254 {
            start(&runtime, &format!("p{n}"), &pod("1"), 0).unwrap();
        }
        let error = start(&runtime, "more", &pod("1"), 0).unwrap_err();
        assert_eq!(error.to_string(), "no pod address is left on node \"n\"");
    }
}
