//! Gives an aggregated ClusterRole the rules of all ClusterRoles that its aggregation rule selects.

mod plan;

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::json;
use setpoint_api::{Change, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::cluster_role_aggregation::plan::rules;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "clusterrole-aggregation-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = RoleAggregation {
        roles: context.lister()?,
    };
    let roles = reconciler.roles.clone();
    Controller::new(NAME, reconciler)
        .watches(ClusterRole::resource().group_resource(), move |change| {
            aggregated_roles(&roles, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct RoleAggregation {
    roles: Lister<ClusterRole>,
}

/// All aggregated roles: which of them select the changed one is decided when they are reconciled.
fn aggregated_roles(roles: &Lister<ClusterRole>, change: &Change) -> Vec<Key> {
    let is_made =
        |role: &TypedObject<ClusterRole>| role.shared().is_ok_and(|role| role.aggregation_rule.is_some());
    if change.object().header().labels.is_empty()
        && change.old().is_none_or(|old| old.header().labels.is_empty())
    {
        // It has no labels, so no role selects it; it may itself be aggregated.
        return vec![change.key().clone()];
    }
    let all = roles.list();
    all.iter()
        .filter(|role| is_made(role))
        .map(|role| role.key().clone())
        .collect()
}

impl Reconcile for RoleAggregation {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.roles.find(key) else {
            return Ok(Next::Done);
        };
        let role = object.shared()?;
        if role.aggregation_rule.is_none() || object.header().deleting {
            return Ok(Next::Done);
        }
        let others: Result<Vec<_>, Status> = self.roles.list().iter().map(TypedObject::shared).collect();
        let rules = rules(&role, &others?);
        if role.rules.clone().unwrap_or_default() == rules {
            return Ok(Next::Done);
        }
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": key.name()},
            "rules": rules,
        });
        let patch = Patch::apply(&applied, NAME)?.force();
        client.all::<ClusterRole>().patch(key.name(), &patch).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{AggregationRule, PolicyRule};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    fn role(name: &str, label: Option<&str>, verb: Option<&str>) -> ClusterRole {
        let mut role = ClusterRole::default();
        role.metadata.name = Some(name.to_owned());
        role.metadata.labels = label.map(|label| [("sum".to_owned(), label.to_owned())].into());
        role.rules = verb.map(|verb| {
            vec![PolicyRule {
                verbs: vec![verb.to_owned()],
                api_groups: Some(vec![String::new()]),
                resources: Some(vec!["pods".to_owned()]),
                ..PolicyRule::default()
            }]
        });
        role
    }

    #[tokio::test]
    async fn an_aggregated_role_follows_the_selected_roles() {
        let (cluster, _components) = Cluster::with([Component::Controller("clusterrole-aggregation")]).await;
        let roles = cluster.client("test").all::<ClusterRole>();
        let mut sum = role("sum", None, None);
        sum.aggregation_rule = Some(AggregationRule {
            cluster_role_selectors: Some(vec![LabelSelector {
                match_labels: Some([("sum".to_owned(), "yes".to_owned())].into()),
                match_expressions: None,
            }]),
        });
        let verbs = |cluster: &Cluster| -> Vec<String> {
            let sum: Option<ClusterRole> = cluster.find("sum");
            let rules = sum.and_then(|sum| sum.rules).unwrap_or_default();
            rules.into_iter().flat_map(|rule| rule.verbs).collect()
        };
        roles.create(&sum).await.unwrap();
        roles.create(&role("a", Some("yes"), Some("get"))).await.unwrap();
        roles
            .create(&role("b", Some("no"), Some("delete")))
            .await
            .unwrap();
        cluster
            .until("one rule", |cluster| verbs(cluster) == ["get"])
            .await;
        roles.create(&role("c", Some("yes"), Some("list"))).await.unwrap();
        cluster
            .until("two rules", |cluster| verbs(cluster) == ["get", "list"])
            .await;
    }
}
