//! The engine on a real etcd: the store's conformance suite, several servers, lost members, lost connections. Skipped
//! where etcd is not installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "skipped tests are printed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests wait for another process, which has the time of the machine"
)]

mod admin;
mod failures;
mod members;
mod proxy;
mod rig;
mod security;
mod servers;

use setpoint_store::{Config, Store, conformance};

use rig::Etcd;

/// OC1 OC6 OC11
#[test]
fn the_etcd_engine_keeps_the_contract() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    check_contract(&|config| etcd.store(config, etcd.new_prefix()));
}

/// OC1 OC6 OC11
#[test]
fn the_etcd_engine_keeps_the_contract_on_three_members() {
    let Some(members) = Etcd::start_members(3, "http", &[]) else {
        return;
    };
    let servers: Vec<_> = members.iter().map(Etcd::url).collect();
    check_contract(&|config| rig::open(&servers, config, members[0].new_prefix()));
}

fn check_contract(open: &dyn Fn(Config) -> Store) {
    for (name, check) in conformance::ALL.iter().chain(conformance::SEALING) {
        println!("{name}");
        check(open);
    }
}
