//! [`EtcdOverride`]: a value of `--etcd-servers-overrides`, which has a resource stored on other etcd servers.

use std::str::FromStr;

use setpoint_api::GroupResource;

/// A resource and its servers, as `group/resource#server;server`. The resource `*` means all of the group without an
/// override of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdOverride {
    pub(crate) resource: GroupResource,
    pub(crate) servers: Vec<String>,
}

/// kube-apiserver's error for a value of another form.
const INVALID: &str = "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are \
                       URLs, semicolon separated";

impl FromStr for EtcdOverride {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resource, servers) = split_once_only(text, '#')?;
        let (group, resource) = split_once_only(resource, '/')?;
        let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
        match servers.iter().any(String::is_empty) {
            true => Err(INVALID),
            false => Ok(Self {
                resource: GroupResource::new(group, resource),
                servers,
            }),
        }
    }
}

impl EtcdOverride {
    /// The servers in the order of their text: two overrides with the same servers are of one etcd.
    pub(crate) fn sorted_servers(&self) -> Vec<String> {
        let mut servers = self.servers.clone();
        servers.sort();
        servers
    }
}

/// Both sides of a separator that occurs once.
fn split_once_only(text: &str, separator: char) -> Result<(&str, &str), &'static str> {
    let split = text.split_once(separator);
    let split = split.filter(|(_, right)| !right.contains(separator));
    split.ok_or(INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str, &[&str])>) {
        let parsed = text.parse::<EtcdOverride>().ok();
        let expected = expected.map(|(group, resource, servers)| EtcdOverride {
            resource: GroupResource::new(group, resource),
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        });
        assert_eq!(parsed, expected, "{text}");
    }

    #[test]
    fn an_override_names_a_resource_and_servers() {
        check("/events#http://a:1", Some(("", "events", &["http://a:1"])));
        check(
            "apps/deployments#http://a:1;https://b:2",
            Some(("apps", "deployments", &["http://a:1", "https://b:2"])),
        );
        check("apps/*#http://a:1", Some(("apps", "*", &["http://a:1"])));
    }

    #[test]
    fn other_forms_are_invalid() {
        for text in [
            "",
            "/events",
            "events#http://a:1",
            "/events#",
            "/events#http://a:1;",
            "/events#http://a:1#http://b:2",
            "a/b/c#http://a:1",
        ] {
            check(text, None);
        }
    }
}
