//! The stores on etcd, as `--etcd-servers` and `--etcd-servers-overrides` configure them.

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::GroupResource;
use setpoint_etcd::{Credentials, EtcdConfig, TlsFiles};
use setpoint_registry::{EtcdLayout, Stores};
use setpoint_store::{Config, Store};
use setpoint_strategy::Kinds;

use crate::args::EtcdFlags;

/// The groups whose resources kube-apiserver stores by the defaults alone, without overrides.
const WITHOUT_OVERRIDES: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The resource of an override that means all of its group.
const ALL_RESOURCES: &str = "*";

/// The servers of some overrides, and the built-in resources that are stored there.
#[derive(Debug, PartialEq, Eq)]
struct Placement {
    servers: Vec<String>,
    resources: Vec<GroupResource>,
}

/// Opens all stores. Resolves once their keys are listed.
pub(super) async fn open(flags: &EtcdFlags, config: Config, kinds: &Kinds) -> Result<Stores> {
    let placements = placements(flags, kinds);
    let elsewhere: Vec<GroupResource> = placements
        .iter()
        .flat_map(|placement| placement.resources.iter().cloned())
        .collect();
    let default = open_one(
        flags,
        &flags.etcd_servers,
        layout(flags, kinds).without(&elsewhere),
        &config,
    );
    let mut stores = Stores::from(default.await?);
    for placement in placements {
        let layout = layout(flags, kinds).with_only(&placement.resources);
        let store = open_one(flags, &placement.servers, layout, &config).await?;
        stores = stores.with_override(store, placement.resources);
    }
    Ok(stores)
}

async fn open_one(
    flags: &EtcdFlags,
    servers: &[String],
    layout: EtcdLayout,
    config: &Config,
) -> Result<Store> {
    let etcd = etcd_config(flags, servers)?;
    let config = Config {
        codec: Arc::new(layout),
        ..config.clone()
    };
    let opened = setpoint_etcd::open(etcd, config).await;
    opened.with_context(|| format!("cannot use the etcd at {}", servers.join(",")))
}

/// What the overrides have stored where: a placement for each set of servers, in the order of the flag, also if no
/// resource is stored there.
fn placements(flags: &EtcdFlags, kinds: &Kinds) -> Vec<Placement> {
    let mut sets: Vec<(Vec<String>, Placement)> = Vec::new();
    for one in &flags.etcd_servers_overrides {
        let sorted = one.sorted_servers();
        if sets.iter().all(|(known, _)| *known != sorted) {
            let placement = Placement {
                servers: one.servers.clone(),
                resources: Vec::new(),
            };
            sets.push((sorted, placement));
        }
    }
    let stored = kinds.iter().filter(|kind| {
        let info = kind.info();
        info.is_storage_version() && info.rules.resource.stored
    });
    for kind in stored {
        let resource = kind.info().storage.group_resource();
        if let Some(servers) = override_of(flags, &resource) {
            let set = sets.iter_mut().find(|(known, _)| *known == servers);
            set.expect("every override has its set")
                .1
                .resources
                .push(resource);
        }
    }
    sets.into_iter().map(|(_, placement)| placement).collect()
}

/// The servers of the override that applies to a resource, in sorted order: the last one of the resource, otherwise the
/// last one of its group.
fn override_of(flags: &EtcdFlags, resource: &GroupResource) -> Option<Vec<String>> {
    if WITHOUT_OVERRIDES.contains(&resource.group.as_str()) {
        return None;
    }
    let last = |name: &str| {
        let mut overrides = flags.etcd_servers_overrides.iter().rev();
        overrides.find(|one| one.resource.group == resource.group && one.resource.resource == name)
    };
    let applied = last(&resource.resource).or_else(|| last(ALL_RESOURCES));
    applied.map(|one| one.sorted_servers())
}

/// The keys and values of these flags.
pub(super) fn layout(flags: &EtcdFlags, kinds: &Kinds) -> EtcdLayout {
    EtcdLayout::new(&flags.etcd_prefix, kinds)
}

/// The etcd of the servers' leases, which upstream is that of a resource, too.
pub(super) fn server_lease_config(flags: &EtcdFlags) -> Result<EtcdConfig> {
    let servers = override_of(flags, &GroupResource::new("", "apiServerIPInfo"));
    etcd_config(flags, servers.as_ref().unwrap_or(&flags.etcd_servers))
}

fn etcd_config(flags: &EtcdFlags, servers: &[String]) -> Result<EtcdConfig> {
    let tls = TlsFiles {
        authority: flags.etcd_cafile.clone(),
        certificate: flags.etcd_certfile.clone(),
        key: flags.etcd_keyfile.clone(),
    };
    let mut config = EtcdConfig::new(servers, &tls)?;
    config.compaction_interval = flags.etcd_compaction_interval;
    config.credentials = credentials(flags)?;
    Ok(config)
}

fn credentials(flags: &EtcdFlags) -> Result<Option<Credentials>> {
    let (Some(user), Some(path)) = (&flags.etcd_user, &flags.etcd_password_file) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(Credentials {
        user: user.clone(),
        password: text.trim_end_matches(['\n', '\r']).to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(contents: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, contents).unwrap();
        let flags = EtcdFlags {
            etcd_servers: vec!["http://127.0.0.1:2379".to_owned()],
            etcd_user: Some("root".to_owned()),
            etcd_password_file: Some(path),
            ..EtcdFlags::default()
        };
        let config = etcd_config(&flags, &flags.etcd_servers).unwrap();
        let credentials = config.credentials.unwrap();
        assert_eq!(
            (credentials.user, credentials.password.as_str()),
            ("root".to_owned(), expected)
        );
    }

    #[test]
    fn the_password_is_the_text_of_its_file_without_the_line_break() {
        check("secret\n", "secret");
        check("with space ", "with space ");
    }

    #[test]
    fn without_a_user_there_are_no_credentials() {
        assert_eq!(credentials(&EtcdFlags::default()).unwrap(), None);
    }

    fn overridden(overrides: &[&str]) -> EtcdFlags {
        EtcdFlags {
            etcd_servers: vec!["http://main:1".to_owned()],
            etcd_servers_overrides: overrides.iter().map(|one| one.parse().unwrap()).collect(),
            ..EtcdFlags::default()
        }
    }

    #[track_caller]
    fn check_placements(overrides: &[&str], expected: &[(&str, &[&str])]) {
        let placements = placements(&overridden(overrides), &setpoint_kinds::builtin());
        let found: Vec<_> = placements
            .iter()
            .map(|placement| {
                let names = placement.resources.iter().map(ToString::to_string);
                let mut names: Vec<_> = names.collect();
                names.sort();
                (placement.servers.join(";"), names)
            })
            .collect();
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|(servers, names)| (servers.as_str(), names.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(servers, names)| (*servers, names.to_vec()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn overrides_with_the_same_servers_share_a_store() {
        check_placements(
            &[
                "/events#http://a:1;http://b:1",
                "coordination.k8s.io/leases#http://c:1",
                "/pods#http://b:1;http://a:1",
            ],
            &[
                ("http://a:1;http://b:1", &["events", "pods"]),
                ("http://c:1", &["leases.coordination.k8s.io"]),
            ],
        );
    }

    #[test]
    fn the_override_of_a_resource_precedes_that_of_its_group() {
        check_placements(
            &[
                "policy/poddisruptionbudgets#http://a:1",
                "policy/*#http://b:1",
                "autoscaling/*#http://c:1",
                "autoscaling/*#http://b:1",
            ],
            &[
                ("http://a:1", &["poddisruptionbudgets.policy"]),
                ("http://b:1", &["horizontalpodautoscalers.autoscaling"]),
                ("http://c:1", &[]),
            ],
        );
    }

    /// Events are one resource in two groups, of which the first counts; the rest is never overridden by kube-apiserver.
    #[test]
    fn what_kube_apiserver_stores_by_its_defaults_is_not_overridden() {
        for name in [
            "events.k8s.io/events",
            "apiextensions.k8s.io/customresourcedefinitions",
            "apiregistration.k8s.io/*",
            "example.com/widgets",
        ] {
            check_placements(&[&format!("{name}#http://a:1")], &[("http://a:1", &[])]);
        }
    }
}
