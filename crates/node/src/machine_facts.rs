//! Facts of the machine that the agent runs on, from the files of the kernel and the distribution.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use compact_str::CompactString;

use crate::config::{Machine, SystemInfo};

/// Memory that is not allocatable to pods: the kubelet's default threshold for eviction.
const RESERVED_MEMORY_KIB: u64 = 100 * 1024;
/// The kubelet's default limit of pods.
const MAX_PODS: u32 = 110;

impl Machine {
    /// The machine that the process runs on, as a node of this name, or of its host name.
    pub fn this_host(name: Option<&str>, address: Option<IpAddr>) -> Self {
        let hostname = read("/proc/sys/kernel/hostname").to_lowercase();
        let name: CompactString = name.map_or(hostname.as_str(), |name| name).into();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = memory_kib(&read("/proc/meminfo"));
        let amounts = |memory: u64| {
            let amounts = [
                ("cpu", cpus.to_string()),
                ("memory", format!("{memory}Ki")),
                ("pods", MAX_PODS.to_string()),
            ];
            amounts.map(|(name, amount)| (name.to_owned(), amount)).into()
        };
        Self {
            labels: std::collections::BTreeMap::new(),
            addresses: vec![address.unwrap_or_else(own_address)],
            capacity: amounts(memory),
            allocatable: Some(amounts(memory.saturating_sub(RESERVED_MEMORY_KIB))),
            system: SystemInfo {
                os_image: os_image(&read("/etc/os-release")),
                kernel_version: read("/proc/sys/kernel/osrelease"),
                container_runtime: String::new(),
                machine_id: read("/etc/machine-id"),
                system_uuid: read("/sys/class/dmi/id/product_uuid"),
                boot_id: read("/proc/sys/kernel/random/boot_id"),
            },
            ..Self::new(&name, 0)
        }
    }
}

/// The text of a small file without the space around it; empty if it cannot be read.
fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn memory_kib(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = total.and_then(|total| total.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn os_image(os_release: &str) -> String {
    let name = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("Linux", |name| name.trim_matches('"')).to_owned()
}

/// The address from which the machine reaches others. Connecting a datagram socket sends nothing.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let address = socket.and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    address.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_read_from_the_files_of_the_machine() {
        assert_eq!(
            memory_kib("MemTotal:       24576000 kB\nMemFree: 1 kB\n"),
            24_576_000
        );
        let release = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(os_image(release), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(os_image(""), "Linux");
    }

    #[test]
    fn this_host_has_processors_memory_and_a_kernel() {
        let machine = Machine::this_host(Some("me"), None);
        assert_eq!(machine.name, "me");
        assert_ne!(machine.capacity["memory"], "0Ki");
        assert!(!machine.system.kernel_version.is_empty());
    }
}
