//! The total requests or limits of a pod's containers.

use setpoint_schema::{Map, Tree, fields};
use setpoint_values::resource_list::{self, InitContainer, ResourceList};

/// The total of `requests` or `limits` over all containers.
pub(super) fn of_containers(spec: &Tree, list: &str) -> ResourceList {
    let containers = spec.items(fields::CONTAINERS).iter();
    let init_containers = spec.items(fields::INIT_CONTAINERS).iter();
    resource_list::sum_of_containers(
        containers.map(|container| amounts(container, list)),
        init_containers.map(|container| {
            let policy = container.str_at(&[fields::RESTART_POLICY]).unwrap_or_default();
            InitContainer::new(policy, amounts(container, list))
        }),
    )
}

fn amounts(container: &Tree, list: &str) -> ResourceList {
    let amounts = container.at(&[fields::RESOURCES, list]).and_then(Tree::as_map);
    let entries = amounts.into_iter().flat_map(Map::iter);
    resource_list::parse(entries.filter_map(|(name, amount)| Some((name, amount.as_str()?))))
}
