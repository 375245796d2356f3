//! A runtime that runs nothing: pods come up and go down by the clock alone.
//!
//! Everything else about them is real, so that a cluster of thousands of nodes behaves as one would, on one machine.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Key;

use super::life::life;
use super::{Error, Life, Progress, Runtime, Sandbox, Unwanted, Wanted, Work};
use crate::config::Machine;

/// Pods that take a while to start and to stop, and cost nothing in between.
#[derive(Debug, Default)]
pub struct Simulated {
    /// How long a pod takes to come up.
    pub starting: Duration,
    /// How long a pod takes to go down, if its grace period is not shorter.
    pub stopping: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<Key, Running>,
    /// Which pod addresses of a machine are in use: exactly those of its `pods`. By the machine's number.
    addresses: HashMap<u32, Addresses>,
}

/// A pod that is up or on its way up or down.
#[derive(Debug)]
struct Running {
    uid: CompactString,
    machine: u32,
    /// Its address on the machine.
    host: u8,
    address: Ipv4Addr,
    started: Timestamp,
    /// Since when it is going down.
    stopped: Option<Timestamp>,
}

/// One bit for each host part in use.
#[derive(Debug, Default)]
struct Addresses([u64; 4]);

// === impl Simulated ===

impl Simulated {
    pub fn new(starting: Duration, stopping: Duration) -> Self {
        Self {
            starting,
            stopping,
            ..Self::default()
        }
    }

    fn start_now(&self, wanted: Wanted<'_>) -> Result<Progress<Sandbox>, Error> {
        let uid = wanted.pod.metadata.uid.as_deref().unwrap_or_default();
        let mut state = self.state.lock();
        if state.pods.get(wanted.key).is_some_and(|pod| pod.uid != uid) {
            state.remove(wanted.key);
        }
        if !state.pods.contains_key(wanted.key) {
            state.place(&wanted, uid)?;
        }
        let pod = &state.pods[wanted.key];
        match left(wanted.now, pod.started, self.starting) {
            Some(wait) => Ok(Progress::Wait(wait)),
            None => Ok(Progress::Done(Sandbox {
                life: life(wanted.now, pod.started, wanted.pod),
                ..pod.sandbox()
            })),
        }
    }

    fn stop_now(&self, unwanted: Unwanted<'_>) -> Progress<()> {
        let mut state = self.state.lock();
        let Some(pod) = state.pods.get_mut(unwanted.key) else {
            return Progress::Done(());
        };
        if pod.uid != unwanted.uid {
            return Progress::Done(());
        }
        let since = *pod.stopped.get_or_insert(unwanted.now);
        if let Some(wait) = left(unwanted.now, since, self.stopping.min(unwanted.grace)) {
            return Progress::Wait(wait);
        }
        state.remove(unwanted.key);
        Progress::Done(())
    }
}

impl Runtime for Simulated {
    fn start(&self, wanted: Wanted<'_>) -> Work<'_, Sandbox> {
        let started = self.start_now(wanted);
        Box::pin(async move { started })
    }

    fn stop(&self, unwanted: Unwanted<'_>) -> Work<'_, ()> {
        let stopped = self.stop_now(unwanted);
        Box::pin(async move { Ok(stopped) })
    }

    fn forget(&self, key: &Key) {
        self.state.lock().remove(key);
    }
}

/// What is left of a time span that began then.
fn left(now: Timestamp, began: Timestamp, span: Duration) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    span.checked_sub(passed).filter(|left| !left.is_zero())
}

// === impl State ===

impl State {
    /// Gives the pod an address. One that already says it runs keeps its address and its start: so a restarted agent
    /// takes over what its predecessor left.
    fn place(&mut self, wanted: &Wanted<'_>, uid: &str) -> Result<(), Error> {
        let machine = wanted.machine;
        let known = known(wanted);
        let addresses = self.addresses.entry(machine.number).or_default();
        let host = known
            .and_then(|(address, _)| addresses.take(machine, address))
            .or_else(|| addresses.take_free())
            .ok_or_else(|| Error::NoAddress(machine.name.to_string()))?;
        let pod = Running {
            uid: uid.into(),
            machine: machine.number,
            host,
            address: machine.pod_address(host),
            started: known.map_or(wanted.now, |(_, started)| started),
            stopped: None,
        };
        self.pods.insert(wanted.key.clone(), pod);
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        let Some(pod) = self.pods.remove(key) else {
            return;
        };
        if let Some(addresses) = self.addresses.get_mut(&pod.machine) {
            addresses.give_back(pod.host);
        }
    }
}

/// The address and the start that the pod's status speaks of.
fn known(wanted: &Wanted<'_>) -> Option<(Ipv4Addr, Timestamp)> {
    let status = wanted.pod.status.as_ref()?;
    let address = status.pod_ip.as_ref()?.parse().ok()?;
    Some((address, status.start_time.as_ref()?.0))
}

// === impl Running ===

impl Running {
    fn sandbox(&self) -> Sandbox {
        Sandbox {
            address: self.address,
            started: self.started,
            scheme: "simulated",
            life: Life::Running {
                since: self.started,
                restarts: 0,
                look: None,
            },
        }
    }
}

// === impl Addresses ===

impl Addresses {
    /// Takes this very address, if it is one of the machine's and free.
    fn take(&mut self, machine: &Machine, address: Ipv4Addr) -> Option<u8> {
        let host = address.octets()[3];
        let is_own = machine.pod_address(host) == address && host > 0;
        (is_own && !self.is_taken(host)).then(|| self.mark(host))
    }

    fn take_free(&mut self) -> Option<u8> {
        let free = (1..=254).find(|host| !self.is_taken(*host))?;
        Some(self.mark(free))
    }

    fn give_back(&mut self, host: u8) {
        let (word, bit) = place(host);
        self.0[word] &= !bit;
    }

    fn mark(&mut self, host: u8) -> u8 {
        let (word, bit) = place(host);
        self.0[word] |= bit;
        host
    }

    fn is_taken(&self, host: u8) -> bool {
        let (word, bit) = place(host);
        self.0[word] & bit != 0
    }
}

fn place(host: u8) -> (usize, u64) {
    (usize::from(host / 64), 1 << (host % 64))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn pod(uid: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    fn start(runtime: &Simulated, name: &str, pod: &Pod, now: i64) -> Result<Progress<Sandbox>, Error> {
        runtime.start_now(Wanted {
            machine: &Machine::new("n", 7),
            key: &Key::new("default", name),
            pod,
            now: at(now),
        })
    }

    #[track_caller]
    fn address(runtime: &Simulated, name: &str, pod: &Pod) -> String {
        match start(runtime, name, pod, 1000).unwrap() {
            Progress::Done(sandbox) => sandbox.address.to_string(),
            Progress::Wait(wait) => panic!("still {wait:?} to wait"),
        }
    }

    #[test]
    fn a_pod_comes_up_after_its_time_and_keeps_its_address() {
        let runtime = Simulated::new(Duration::from_secs(3), Duration::ZERO);
        let wait = Progress::Wait(Duration::from_secs(3));
        assert_eq!(start(&runtime, "a", &pod("1"), 0), Ok(wait));
        let first = address(&runtime, "a", &pod("1"));
        assert_eq!(address(&runtime, "a", &pod("1")), first);
    }

    #[test]
    fn no_two_pods_share_an_address_and_a_free_one_is_used_again() {
        let runtime = Simulated::default();
        assert_eq!(address(&runtime, "a", &pod("1")), "10.64.7.1");
        assert_eq!(address(&runtime, "b", &pod("2")), "10.64.7.2");
        runtime.forget(&Key::new("default", "a"));
        assert_eq!(address(&runtime, "c", &pod("3")), "10.64.7.1");
    }

    #[test]
    fn a_pod_that_says_it_runs_keeps_its_address_across_a_restart() {
        let mut old = pod("1");
        old.status = Some(PodStatus {
            pod_ip: Some("10.64.7.9".to_owned()),
            start_time: Some(Time(at(5))),
            ..PodStatus::default()
        });
        assert_eq!(address(&Simulated::default(), "a", &old), "10.64.7.9");
    }

    #[test]
    fn a_pod_goes_down_within_its_grace_period() {
        let runtime = Simulated::new(Duration::ZERO, Duration::from_secs(30));
        let stop = |now, grace| {
            runtime.stop_now(Unwanted {
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
    fn a_full_machine_says_so() {
        let runtime = Simulated::default();
        for n in 0..254 {
            start(&runtime, &format!("p{n}"), &pod("1"), 0).unwrap();
        }
        let error = start(&runtime, "more", &pod("1"), 0).unwrap_err();
        assert_eq!(error.to_string(), "no pod address is left on node \"n\"");
    }
}
