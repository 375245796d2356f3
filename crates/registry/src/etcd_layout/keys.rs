//! Keys of objects in Kubernetes' etcd: `<prefix>/<resource>/[<namespace>/]<name>` for built-in kinds, whose resource
//! names are unique, `<prefix>/<group>/<resource>/...` for custom kinds, and a few paths that are older than these rules
//! (`minions`, `services/specs`).

use std::collections::{HashMap, HashSet};

use setpoint_strategy::{KindInfo, Kinds};

use crate::key;

/// The keys of the store's map and of etcd, and which belong together.
#[derive(Debug)]
pub(super) struct KeyLayout {
    /// With a slash at both ends.
    prefix: String,
    /// By the segment of the map's keys that names a built-in resource, the resource's path in etcd.
    paths: HashMap<String, String>,
    /// By the path in etcd, the segment of the map's keys.
    segments: HashMap<String, String>,
    ranges: Vec<Range>,
    selection: Selection,
}

/// The range of a resource: the segment of its objects, and the path in etcd.
#[derive(Debug)]
struct Range {
    segment: String,
    path: String,
}

/// Which resources the store has. The keys of others are skipped, since they are those of another store.
#[derive(Debug)]
pub(super) enum Selection {
    All,
    /// All but those with these segments.
    Except(HashSet<String>),
    /// Those with these segments.
    Only(HashSet<String>),
}

impl KeyLayout {
    pub(super) fn new(prefix: &str, kinds: &Kinds) -> Self {
        let stored = || kinds.iter().filter(|kind| kind.info().is_storage_version());
        let paths: HashMap<String, String> = stored()
            .map(|kind| {
                let segment = kind.info().storage.group_resource().to_string();
                (segment, key::upstream_path(kind.info()))
            })
            .collect();
        let segments = paths
            .iter()
            .map(|(segment, path)| (path.clone(), segment.clone()));
        Self {
            prefix: match prefix.trim_matches('/') {
                "" => "/".to_owned(),
                prefix => format!("/{prefix}/"),
            },
            segments: segments.collect(),
            ranges: stored().filter_map(|kind| Range::of(kind.info())).collect(),
            paths,
            selection: Selection::All,
        }
    }

    pub(super) fn select(&mut self, selection: Selection) {
        self.selection = selection;
    }

    /// The prefix of all keys in etcd.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key in etcd of a key of the map.
    pub(super) fn to_etcd(&self, map_key: &[u8]) -> Option<String> {
        let (segment, object) = key::split(map_key)?;
        let prefix = &self.prefix;
        if segment == key::RANGES {
            let range = self.ranges.iter().find(|range| range.segment == object)?;
            return Some(format!("{prefix}{}", range.path));
        }
        match self.paths.get(segment) {
            Some(path) => Some(format!("{prefix}{path}/{object}")),
            // Only custom kinds are not in the table; their groups have a dot.
            None => {
                let (resource, group) = segment.split_once('.')?;
                Some(format!("{prefix}{group}/{resource}/{object}"))
            }
        }
    }

    /// The key of the map of a key in etcd; `None` if it is not that of an object.
    pub(super) fn parse_etcd(&self, stored_key: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(stored_key).ok()?;
        let path = text.strip_prefix(&self.prefix)?;
        if let Some(range) = self.ranges.iter().find(|range| range.path == path) {
            let is_selected = self.selection.contains(&range.segment);
            return is_selected.then(|| format!("{}{}/{}", key::ROOT, key::RANGES, range.segment));
        }
        let (first, rest) = path.split_once('/')?;
        if let Some(segment) = self.segments.get(first) {
            return self.map_key(segment, rest);
        }
        let (second, object) = rest.split_once('/')?;
        match self.segments.get(&path[..first.len() + 1 + second.len()]) {
            Some(segment) => self.map_key(segment, object),
            None if first.contains('.') => self.map_key(&format!("{second}.{first}"), object),
            None => None,
        }
    }

    fn map_key(&self, segment: &str, object: &str) -> Option<String> {
        let is_key = !object.is_empty() && object.split('/').count() <= 2 && !object.ends_with('/');
        (is_key && self.selection.contains(segment)).then(|| format!("{}{segment}/{object}", key::ROOT))
    }
}

impl Range {
    fn of(info: &KindInfo) -> Option<Self> {
        let name = info.rules.upstream.range_allocation;
        (!name.is_empty()).then(|| Self {
            segment: info.storage.group_resource().to_string(),
            path: format!("{}/{name}", key::RANGES),
        })
    }
}

impl Selection {
    fn contains(&self, segment: &str) -> bool {
        match self {
            Self::All => true,
            Self::Except(segments) => !segments.contains(segment),
            Self::Only(segments) => segments.contains(segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> KeyLayout {
        KeyLayout::new("/registry", &setpoint_kinds::builtin())
    }

    /// Each row was read from the etcd of kube-apiserver 1.37.
    #[track_caller]
    fn check(map_key: &str, stored_key: &str) {
        assert_eq!(layout().to_etcd(map_key.as_bytes()).as_deref(), Some(stored_key));
        assert_eq!(
            layout().parse_etcd(stored_key.as_bytes()).as_deref(),
            Some(map_key)
        );
    }

    #[test]
    fn built_in_resources_have_no_group() {
        check("/registry/pods/corpus/runner", "/registry/pods/corpus/runner");
        check("/registry/configmaps/a/b", "/registry/configmaps/a/b");
        check(
            "/registry/deployments.apps/corpus/rolling",
            "/registry/deployments/corpus/rolling",
        );
        check("/registry/events/corpus/noted", "/registry/events/corpus/noted");
        check(
            "/registry/clusterroles.rbac.authorization.k8s.io/system:basic-user",
            "/registry/clusterroles/system:basic-user",
        );
        check(
            "/registry/leases.coordination.k8s.io/corpus/held",
            "/registry/leases/corpus/held",
        );
        check(
            "/registry/ipaddresses.networking.k8s.io/10.0.0.1",
            "/registry/ipaddresses/10.0.0.1",
        );
    }

    #[test]
    fn older_paths_stay() {
        check("/registry/nodes/corpus-node", "/registry/minions/corpus-node");
        check(
            "/registry/services/corpus/front",
            "/registry/services/specs/corpus/front",
        );
        check(
            "/registry/endpoints/corpus/backends",
            "/registry/services/endpoints/corpus/backends",
        );
        check(
            "/registry/replicationcontrollers/corpus/old-set",
            "/registry/controllers/corpus/old-set",
        );
        check(
            "/registry/ingresses.networking.k8s.io/corpus/entrance",
            "/registry/ingress/corpus/entrance",
        );
        check(
            "/registry/apiservices.apiregistration.k8s.io/v1.apps",
            "/registry/apiregistration.k8s.io/apiservices/v1.apps",
        );
        check(
            "/registry/customresourcedefinitions.apiextensions.k8s.io/things.example.com",
            "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com",
        );
    }

    #[test]
    fn custom_resources_are_under_their_group() {
        check(
            "/registry/gadgets.mutation.example.com/corpus/g",
            "/registry/mutation.example.com/gadgets/corpus/g",
        );
        check(
            "/registry/pods.example.com/wide",
            "/registry/example.com/pods/wide",
        );
    }

    #[test]
    fn the_range_of_a_resource_has_a_name_of_its_own() {
        check("/registry/ranges/services", "/registry/ranges/servicenodeports");
        assert_eq!(layout().to_etcd(b"/registry/ranges/pods"), None);
    }

    #[test]
    fn keys_that_are_not_of_objects_are_skipped() {
        for stored_key in [
            "/registry/masterleases/192.0.2.2",
            "/registry/peerserverleases/apiserver-a",
            "/registry/ranges/serviceips",
            "/registry/pods/",
            "/registry/pods/a/b/c",
            "/registry/services/other/a/b",
            "/registry/health",
            "/other/pods/a/b",
            "compact_rev_key",
        ] {
            assert_eq!(layout().parse_etcd(stored_key.as_bytes()), None, "{stored_key}");
        }
    }

    #[test]
    fn a_prefix_replaces_the_root() {
        for (prefix, expected) in [
            ("/a/b/", "/a/b/minions/n1"),
            ("a", "/a/minions/n1"),
            ("/", "/minions/n1"),
        ] {
            let layout = KeyLayout::new(prefix, &setpoint_kinds::builtin());
            assert_eq!(layout.to_etcd(b"/registry/nodes/n1").unwrap(), expected);
            assert_eq!(
                layout.parse_etcd(expected.as_bytes()).unwrap(),
                "/registry/nodes/n1"
            );
        }
    }

    #[test]
    fn keys_of_resources_of_another_store_are_skipped() {
        let events = || HashSet::from(["events".to_owned()]);
        let (event, pod) = ("/registry/events/a/b", "/registry/pods/a/b");
        for (selection, expected) in [
            (Selection::Except(events()), [None, Some(pod)]),
            (Selection::Only(events()), [Some(event), None]),
        ] {
            let mut layout = layout();
            layout.select(selection);
            let parsed = [event, pod].map(|key| layout.parse_etcd(key.as_bytes()));
            assert_eq!(parsed.each_ref().map(Option::as_deref), expected);
        }
    }

    #[test]
    fn a_range_is_on_the_store_of_its_resource() {
        let services = || HashSet::from(["services".to_owned()]);
        for (selection, expected) in [
            (Selection::Except(services()), None),
            (Selection::Only(services()), Some("/registry/ranges/services")),
        ] {
            let mut layout = layout();
            layout.select(selection);
            let parsed = layout.parse_etcd(b"/registry/ranges/servicenodeports");
            assert_eq!(parsed.as_deref(), expected);
        }
    }

    #[test]
    fn no_two_resources_share_a_path() {
        let layout = layout();
        assert_eq!(layout.paths.len(), layout.segments.len());
    }
}
