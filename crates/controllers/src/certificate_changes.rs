//! Changes of the cluster's certificates while controllers run: a CA is rotated, or the files of one are replaced.

use setpoint_runtime::{Context, Error};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificates::Authority;
use crate::descriptors::{Config, StartController};

/// The certificates of a cluster that controllers use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterCertificates {
    /// As in [`Config::root_ca`].
    pub root_ca: String,
    /// As in [`Config::client_ca`].
    pub client_ca: String,
    /// As in [`Config::proxy_ca`].
    pub proxy_ca: String,
    /// As in [`Config::authority`].
    pub authority: Option<Authority>,
}

/// Runs a controller until stopped. Each change of the certificates ends it and runs it again with the new ones: its
/// informers then deliver every object once more.
pub(crate) async fn run(
    start: StartController,
    context: Context,
    mut config: Config,
    mut changes: watch::Receiver<ClusterCertificates>,
    stop: CancellationToken,
) -> Result<(), Error> {
    loop {
        let current = changes.borrow_and_update().clone();
        (config.root_ca, config.authority) = (current.root_ca, current.authority);
        (config.client_ca, config.proxy_ca) = (current.client_ca, current.proxy_ca);
        let child = stop.child_token();
        let mut running = start(context.clone(), config.clone(), child.clone());
        tokio::select! {
            ended = &mut running => return ended,
            Ok(()) = changes.changed() => {}
        }
        child.cancel();
        running.await?;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;
    use crate::{root_ca_publisher, select};

    fn certificates(root_ca: &str) -> ClusterCertificates {
        ClusterCertificates {
            root_ca: root_ca.to_owned(),
            ..ClusterCertificates::default()
        }
    }

    fn published(cluster: &Cluster) -> Option<String> {
        let map: Option<ConfigMap> = cluster.find("kube-root-ca.crt");
        map?.data?.remove("ca.crt")
    }

    #[tokio::test]
    async fn a_rotated_ca_is_published_by_the_running_controller() {
        let cluster = Cluster::start().await;
        let (sender, changes) = watch::channel(certificates("first"));
        let config = Config {
            certificate_changes: Some(changes),
            ..Config::default()
        };
        let controller = select(&[root_ca_publisher::NAME]).unwrap().remove(0);
        let mut running = JoinSet::new();
        let context = cluster.context(root_ca_publisher::NAME);
        running.spawn(controller.run(context, config, CancellationToken::new()));
        cluster
            .until("the first CA", |cluster| {
                published(cluster).as_deref() == Some("first")
            })
            .await;
        sender.send_replace(certificates("first and second"));
        cluster
            .until("both", |cluster| {
                published(cluster).as_deref() == Some("first and second")
            })
            .await;
        assert!(running.try_join_next().is_none());
    }
}
