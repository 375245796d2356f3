//! The plugin's commands: ADD, DEL, CHECK, GC, STATUS, VERSION.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::config::{Attachment, Config};
use crate::error::Error;
use crate::ipam::{Lease, Leases};
use crate::{host_ports, network};

const VERSIONS: &[&str] = &["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The variable with the command; a runtime sets it for every plugin that it executes.
const COMMAND: &str = "CNI_COMMAND";

/// Whether this process was executed as a CNI plugin.
pub fn is_plugin_call() -> bool {
    std::env::var_os(COMMAND).is_some() && std::env::args_os().len() == 1
}

/// Runs the command of the environment, with the configuration on standard input and the result on standard output.
pub fn run() -> ExitCode {
    let mut input = String::new();
    let read = std::io::stdin().read_to_string(&mut input);
    let done = read
        .map_err(Error::io("cannot read the configuration"))
        .and_then(|_| execute(&input));
    let (output, code) = match done {
        Ok(output) => (output, ExitCode::SUCCESS),
        Err(error) => {
            let output = json!({ "cniVersion": "1.0.0", "code": error.code, "msg": error.message });
            (Some(output), ExitCode::FAILURE)
        }
    };
    if let Some(output) = output {
        // A runtime that closed its end has given up: the error cannot be reported.
        std::io::stdout().write_all(output.to_string().as_bytes()).ok();
    }
    code
}

/// The pod that a command is about.
struct Call {
    container: String,
    interface: String,
    /// The path of its network namespace; of a pod that is gone there may be none.
    namespace: Option<PathBuf>,
}

fn execute(input: &str) -> Result<Option<Value>, Error> {
    let command = variable(COMMAND)?;
    if command == "VERSION" {
        return Ok(Some(
            json!({ "cniVersion": "1.0.0", "supportedVersions": VERSIONS }),
        ));
    }
    let config: Config = serde_json::from_str(input)
        .map_err(|error| Error::new(Error::INVALID_CONFIG, format!("invalid configuration: {error}")))?;
    if command == "STATUS" {
        return Ok(None);
    }
    if command == "GC" {
        return collect_garbage(&config).map(|()| None);
    }
    let call = Call {
        container: variable("CNI_CONTAINERID")?,
        interface: variable("CNI_IFNAME")?,
        namespace: variable("CNI_NETNS")
            .ok()
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
    };
    match (command.as_str(), config.r#type.as_str()) {
        ("ADD", "loopback") => add_loopback(&call, &config).map(Some),
        ("ADD", _) => add(&call, &config).map(Some),
        ("DEL", "loopback") | ("CHECK", "loopback") => Ok(None),
        ("DEL", _) => delete(&call, &config).map(|()| None),
        ("CHECK", _) => check(&call, &config).map(|()| None),
        _ => Err(Error::new(
            Error::INVALID_ENVIRONMENT,
            format!("unknown {COMMAND}: {command}"),
        )),
    }
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).map_err(|_| {
        Error::new(
            Error::INVALID_ENVIRONMENT,
            format!("required env variables [{name}] missing"),
        )
    })
}

impl Call {
    fn namespace(&self) -> Result<&PathBuf, Error> {
        let missing = || {
            Error::new(
                Error::INVALID_ENVIRONMENT,
                "required env variables [CNI_NETNS] missing",
            )
        };
        self.namespace.as_ref().ok_or_else(missing)
    }

    fn lease(&self) -> Lease {
        Lease {
            container: self.container.clone(),
            interface: self.interface.clone(),
            ports: Vec::new(),
        }
    }
}

fn add_loopback(call: &Call, config: &Config) -> Result<Value, Error> {
    let namespace = call.namespace()?;
    network::set_up_loopback(namespace).map_err(Error::io("cannot set up the loopback interface"))?;
    Ok(json!({
        "cniVersion": config.cni_version,
        "interfaces": [{ "name": call.interface, "sandbox": namespace }],
        "ips": [{ "address": "127.0.0.1/8", "interface": 0 }],
    }))
}

/// Gives the pod an address and connects it. What was done before a failure is undone.
fn add(call: &Call, config: &Config) -> Result<Value, Error> {
    let namespace = call.namespace()?;
    let mut leases = Leases::open(&config.data_dir, &config.subnet)?;
    let is_new = leases.find(&call.container, &call.interface).is_none();
    let mut lease = call.lease();
    lease.ports.clone_from(&config.runtime_config.port_mappings);
    let address = leases.allocate(lease)?;
    let link = network::PodLink {
        container: &call.container,
        interface: &call.interface,
        namespace,
        address,
        node_address: config.node_address,
    };
    let connected = network::connect(&link)
        .map_err(Error::io("cannot connect the pod"))
        .and_then(|macs| host_ports::add(address, &config.runtime_config.port_mappings).map(|()| macs));
    let interfaces = match connected {
        Ok(interfaces) => interfaces,
        Err(error) => {
            // The host ports of a new pod are added last and all at once: those that it requests are another pod's.
            release(call, &mut leases, !is_new)?;
            return Err(error);
        }
    };
    Ok(result(&link, &interfaces, &config.cni_version))
}

fn result(link: &network::PodLink<'_>, macs: &network::Interfaces, version: &str) -> Value {
    let gateway = network::GATEWAY;
    json!({
        "cniVersion": version,
        "interfaces": [
            { "name": macs.host_name, "mac": macs.host_mac },
            { "name": link.interface, "mac": macs.pod_mac, "sandbox": link.namespace },
        ],
        "ips": [{ "address": format!("{}/32", link.address), "gateway": gateway, "interface": 1 }],
        "routes": [{ "dst": "0.0.0.0/0", "gw": gateway }],
        "dns": {},
    })
}

/// Releases the address and removes the link. A pod without either is no error: the runtime repeats the command.
fn delete(call: &Call, config: &Config) -> Result<(), Error> {
    release(call, &mut Leases::open(&config.data_dir, &config.subnet)?, true)
}

fn release(call: &Call, leases: &mut Leases, has_host_ports: bool) -> Result<(), Error> {
    let released = leases.release(&call.container, &call.interface);
    if let Some((_, lease)) = released.filter(|_| has_host_ports) {
        host_ports::remove(&lease.ports);
    }
    network::disconnect(&call.container, &call.interface).map_err(Error::io("cannot remove the link"))?;
    leases.save()
}

/// Removes what is left of pods that the runtime does not have any more. A runtime that lists none keeps none; one that does
/// not send the list is rejected.
fn collect_garbage(config: &Config) -> Result<(), Error> {
    if config.r#type == "loopback" {
        return Ok(());
    }
    let missing = || {
        let message = "the list of valid attachments is missing";
        Error::new(Error::INVALID_CONFIG, message)
    };
    let valid = config.valid_attachments.as_ref().ok_or_else(missing)?;
    let mut leases = Leases::open(&config.data_dir, &config.subnet)?;
    for lease in leases.all() {
        let is_same =
            |one: &Attachment| one.container_id == lease.container && one.interface == lease.interface;
        if !valid.iter().any(is_same) {
            let call = Call {
                container: lease.container,
                interface: lease.interface,
                namespace: None,
            };
            release(&call, &mut leases, true)?;
        }
    }
    Ok(())
}

fn check(call: &Call, config: &Config) -> Result<(), Error> {
    let leases = Leases::open(&config.data_dir, &config.subnet)?;
    let found: Option<Ipv4Addr> = leases.find(&call.container, &call.interface);
    let absent = || Error::new(Error::IO, format!("container {} has no address", call.container));
    found.map(|_| ()).ok_or_else(absent)
}
