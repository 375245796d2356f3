//! Addresses of simulated pods: one block for each machine.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::config::Machine;

/// The pod addresses in use on each machine, by its number.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<u32, AddressBitmap>);

/// One bit for each host part of an address that is in use.
#[derive(Debug, Default)]
struct AddressBitmap([u64; 4]);

// === impl Addresses ===

impl Addresses {
    /// Allocates an address of the machine, this one if it can be had.
    pub(super) fn allocate(&mut self, machine: &Machine, preferred: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        let bitmap = self.0.entry(machine.number).or_default();
        let host = preferred
            .and_then(|address| bitmap.take(machine, address))
            .or_else(|| bitmap.take_free())?;
        Some(machine.pod_address(host))
    }

    pub(super) fn release(&mut self, machine: u32, address: Ipv4Addr) {
        if let Some(bitmap) = self.0.get_mut(&machine) {
            bitmap.release(address.octets()[3]);
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
    use super::*;

    #[test]
    fn no_two_pods_share_an_address_and_a_free_one_is_used_again() {
        let (mut addresses, machine) = (Addresses::default(), Machine::new("n", 7));
        let first = addresses.allocate(&machine, None).unwrap();
        assert_eq!(first.to_string(), "10.64.7.1");
        assert_eq!(
            addresses.allocate(&machine, None).unwrap().to_string(),
            "10.64.7.2"
        );
        addresses.release(7, first);
        assert_eq!(addresses.allocate(&machine, None), Some(first));
    }

    #[test]
    fn an_address_of_a_status_is_kept_if_it_is_free() {
        let (mut addresses, machine) = (Addresses::default(), Machine::new("n", 7));
        let own = Ipv4Addr::new(10, 64, 7, 9);
        assert_eq!(addresses.allocate(&machine, Some(own)), Some(own));
        assert_ne!(addresses.allocate(&machine, Some(own)), Some(own));
        let foreign = Ipv4Addr::new(10, 64, 8, 9);
        assert_ne!(addresses.allocate(&machine, Some(foreign)), Some(foreign));
    }

    #[test]
    fn a_machine_runs_out_of_addresses() {
        let (mut addresses, machine) = (Addresses::default(), Machine::new("n", 7));
        let all = std::iter::from_fn(|| addresses.allocate(&machine, None));
        assert_eq!(all.count(), 254);
    }
}
