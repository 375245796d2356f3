//! Addresses of pods: the next free one of the node's range, in turn, so that an address rests before it is used again.
//!
//! The file of leases is replaced under a lock, which is a file of its own: the runtime executes plugins at the same time, and
//! a crash leaves the old or the new leases.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::config::PortMapping;
use crate::error::Error;

/// The leases of a node, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Leases {
    /// The locked file.
    _lock: File,
    path: PathBuf,
    state: State,
    range: Range,
}

/// The pod that has an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) container: String,
    pub(crate) interface: String,
    pub(crate) ports: Vec<PortMapping>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// The address that was allocated last.
    last: Option<Ipv4Addr>,
    leases: BTreeMap<Ipv4Addr, Lease>,
}

/// The addresses that pods can have: all but the first two and the last of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
}

impl Leases {
    /// Opens and locks the leases of a range.
    pub(crate) fn open(directory: &Path, subnet: &str) -> Result<Self, Error> {
        let range = Range::parse(subnet)
            .ok_or_else(|| Error::new(Error::INVALID_CONFIG, format!("invalid subnet {subnet:?}")))?;
        let failed = || Error::io("cannot open the leases");
        std::fs::create_dir_all(directory).map_err(failed())?;
        let path = directory.join("leases.json");
        let mut options = File::options();
        let lock = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join("leases.lock"))
            .map_err(failed())?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed()(error.into()))?;
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text.map_err(failed())?,
        };
        // Without valid leases the pods that run keep their routes: a new pod with one of their addresses fails, and is
        // tried again with the next address.
        let state = serde_json::from_slice(&text).unwrap_or_default();
        Ok(Self {
            _lock: lock,
            path,
            state,
            range,
        })
    }

    /// The address of a pod: the one it has, or the next free one.
    pub(crate) fn allocate(&mut self, lease: Lease) -> Result<Ipv4Addr, Error> {
        if let Some(address) = self.find(&lease.container, &lease.interface) {
            return Ok(address);
        }
        let size = self.range.last - self.range.first + 1;
        let start = match self.state.last.map(u32::from) {
            Some(last) if (self.range.first..self.range.last).contains(&last) => last + 1 - self.range.first,
            _ => 0,
        };
        let candidates = (0..size).map(|step| Ipv4Addr::from(self.range.first + (start + step) % size));
        let free = candidates
            .into_iter()
            .find(|address| !self.state.leases.contains_key(address));
        let address =
            free.ok_or_else(|| Error::new(Error::TRY_AGAIN, "no IP addresses available in range set"))?;
        self.state.last = Some(address);
        self.state.leases.insert(address, lease);
        self.save()?;
        Ok(address)
    }

    pub(crate) fn find(&self, container: &str, interface: &str) -> Option<Ipv4Addr> {
        let is_same = |lease: &Lease| lease.container == container && lease.interface == interface;
        let found = self.state.leases.iter().find(|(_, lease)| is_same(lease));
        found.map(|(address, _)| *address)
    }

    /// The leases of all pods.
    pub(crate) fn all(&self) -> Vec<Lease> {
        self.state.leases.values().cloned().collect()
    }

    /// Takes back the address of a pod.
    pub(crate) fn release(&mut self, container: &str, interface: &str) -> Option<(Ipv4Addr, Lease)> {
        let address = self.find(container, interface)?;
        self.state.leases.remove_entry(&address)
    }

    pub(crate) fn save(&mut self) -> Result<(), Error> {
        let failed = || Error::io("cannot write the leases");
        let text = serde_json::to_vec(&self.state).map_err(|error| failed()(error.into()))?;
        let temporary = self.path.with_extension("tmp");
        let mut file = File::create(&temporary).map_err(failed())?;
        file.write_all(&text).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        std::fs::rename(temporary, &self.path).map_err(failed())
    }
}

impl Range {
    fn parse(subnet: &str) -> Option<Self> {
        let (address, bits) = subnet.split_once('/')?;
        let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let bits: u32 = bits.parse().ok().filter(|bits| (1..=29).contains(bits))?;
        let mask = u32::MAX << (32 - bits);
        Some(Self {
            first: (address & mask) + 2,
            last: (address | !mask) - 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(container: &str) -> Lease {
        Lease {
            container: container.to_owned(),
            interface: "eth0".to_owned(),
            ports: Vec::new(),
        }
    }

    #[track_caller]
    fn allocate(directory: &Path, container: &str) -> String {
        let mut leases = Leases::open(directory, "10.244.1.0/29").unwrap();
        leases
            .allocate(lease(container))
            .map_or_else(|error| error.message, |address| address.to_string())
    }

    #[test]
    fn addresses_are_used_in_turn_and_again_once_they_are_free() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for (container, address) in [("a", "10.244.1.2"), ("b", "10.244.1.3"), ("a", "10.244.1.2")] {
            assert_eq!(allocate(path, container), address);
        }
        let mut leases = Leases::open(path, "10.244.1.0/29").unwrap();
        assert_eq!(leases.release("a", "eth0").unwrap().1, lease("a"));
        leases.save().unwrap();
        drop(leases);
        for (container, address) in [
            ("c", "10.244.1.4"),
            ("d", "10.244.1.5"),
            ("e", "10.244.1.6"),
            ("f", "10.244.1.2"),
        ] {
            assert_eq!(allocate(path, container), address);
        }
        assert_eq!(allocate(path, "g"), "no IP addresses available in range set");
    }

    #[test]
    fn leases_are_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        allocate(directory.path(), "a");
        let mut old = File::open(directory.path().join("leases.json")).unwrap();
        allocate(directory.path(), "b");
        let mut text = String::new();
        io::Read::read_to_string(&mut old, &mut text).unwrap();
        assert!(text.contains("\"a\"") && !text.contains("\"b\""), "{text}");
        assert!(!directory.path().join("leases.tmp").exists());
    }

    #[test]
    fn a_range_leaves_out_the_network_the_gateway_and_the_broadcast_address() {
        let range = Range::parse("10.244.1.7/24").unwrap();
        assert_eq!(Ipv4Addr::from(range.first), Ipv4Addr::new(10, 244, 1, 2));
        assert_eq!(Ipv4Addr::from(range.last), Ipv4Addr::new(10, 244, 1, 254));
        for invalid in ["10.244.1.0", "10.244.1.0/31", "x/24", "10.244.1.0/0"] {
            assert_eq!(Range::parse(invalid), None, "{invalid}");
        }
    }
}
