//! The targets: one file each, and its line in [`ALL`].

mod apply;
mod cel;
mod der;
mod etcd_value;
mod json;
mod kubeconfig;
mod package;
mod patch;
mod protobuf;
mod quantity;
mod selector;
mod spdy;
mod store;
mod template;
mod token_file;
mod typed_json;
mod websocket;
mod yaml;

/// A reader of untrusted bytes, with what must hold of any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Roughly how much longer an input takes than one of the fastest targets.
    pub cost: u64,
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input; panics if an assertion about it does not hold.
    pub run: fn(&[u8]),
}

/// Every target.
pub const ALL: &[Target] = &[
    apply::TARGET,
    cel::TARGET,
    der::TARGET,
    etcd_value::TARGET,
    json::TARGET,
    kubeconfig::TARGET,
    package::TARGET,
    patch::TARGET,
    protobuf::TARGET,
    quantity::TARGET,
    selector::TARGET,
    spdy::TARGET,
    store::TARGET,
    template::TARGET,
    token_file::TARGET,
    typed_json::TARGET,
    websocket::TARGET,
    yaml::TARGET,
];

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
