//! Resource lists in trees, and the sum of a pod's requests or limits.

use setpoint_schema::{Map, Tree, fields};
use setpoint_values::resource_list::{self, InitContainer, ResourceList};

/// Parses a resource list; entries that are not quantities are skipped.
pub(crate) fn parse(object: Option<&Tree>) -> ResourceList {
    let entries = object.and_then(Tree::as_map).into_iter().flat_map(Map::iter);
    resource_list::parse(entries.filter_map(|(name, amount)| Some((name, amount.as_str()?))))
}

/// The `requests` or `limits` of a pod: those of the pod as a whole, else those of its containers.
pub(crate) fn of_pod(spec: &Tree, what: &str) -> ResourceList {
    let own = |container: &Tree| parse(container.at(&[fields::RESOURCES, what]));
    let init = |container: &Tree| {
        let policy = container.str_at(&[fields::RESTART_POLICY]).unwrap_or_default();
        InitContainer::new(policy, own(container))
    };
    let mut sum = resource_list::sum_of_containers(
        spec.items(fields::CONTAINERS).iter().map(own),
        spec.items(fields::INIT_CONTAINERS).iter().map(init),
    );
    sum.extend(own(spec));
    sum
}
