//! Hosted clusters without HTTP: what they cost to keep and what is left of them.

use std::net::{Ipv4Addr, SocketAddr};

use setpoint_api::SystemClock;
use setpoint_registry::WatchCaches;
use setpoint_store::Store;

use super::*;
use crate::serve::store_config;

fn host() -> Arc<Clusters> {
    let args = Up::in_memory();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let kinds = Arc::new(setpoint_kinds::builtin());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 6443));
    let certificates = watch::Sender::new(ClusterCertificates {
        root_ca: String::new(),
        client_ca: String::new(),
        proxy_ca: String::new(),
        authority: None,
    });
    Clusters::new(Host {
        own: WatchCaches::open(Store::memory(store_config(&args, &clock)), kinds.clone()),
        args,
        kinds,
        address,
        server: KubeconfigServer {
            address,
            has_user_certificate: false,
        },
        certificates: certificates.subscribe(),
        audit: None,
        clock,
    })
}

fn options(name: &str) -> ClusterOptions {
    ClusterOptions {
        name: Some(name.to_owned()),
        ..ClusterOptions::default()
    }
}

/// All that holds memory of a cluster.
fn handles(cluster: &HostedCluster) -> (Weak<View>, Weak<WatchCaches>, Weak<setpoint_registry::Registry>) {
    (
        Arc::downgrade(&cluster.view),
        Arc::downgrade(&cluster.caches),
        Arc::downgrade(&cluster.registry),
    )
}

#[tokio::test]
async fn a_deleted_cluster_leaves_nothing_behind() {
    let clusters = host();
    let all = ClusterOptions {
        controllers: vec!["*".to_owned()],
        nodes: 1,
        ..options("all")
    };
    let created = [
        handles(&clusters.create(options("plain")).await.unwrap()),
        handles(&clusters.create(all).await.unwrap()),
        handles(&clusters.fork("plain", options("fork")).unwrap()),
    ];
    for (view, caches, registry) in &created {
        assert!(view.strong_count() > 0 && caches.strong_count() > 0 && registry.strong_count() > 0);
    }
    for name in ["plain", "all", "fork"] {
        clusters.delete(name).await.unwrap();
        assert_eq!(clusters.find(name).err().map(|status| status.code), Some(404));
    }
    clusters.tasks.close();
    clusters.tasks.wait().await;
    for (view, caches, registry) in &created {
        let left = (
            view.strong_count(),
            caches.strong_count(),
            registry.strong_count(),
        );
        assert_eq!(left, (0, 0, 0));
    }
}

#[tokio::test]
async fn a_fork_outlives_its_origin() {
    let clusters = host();
    clusters.create(options("origin")).await.unwrap();
    let fork = clusters.fork("origin", options("fork")).unwrap();
    let revision = clusters.find("origin").unwrap().caches.store().revision();
    clusters.delete("origin").await.unwrap();
    fork.registry.started().await;
    assert!(fork.caches.store().revision() >= revision);
}

#[tokio::test]
async fn a_name_is_taken_once() {
    let clusters = host();
    clusters.create(options("a")).await.unwrap();
    let again = clusters.create(options("a")).await.err().unwrap();
    assert!(again.is_already_exists(), "{again:?}");
    let generated = clusters.create(ClusterOptions::default()).await.unwrap();
    assert!(generated.name.starts_with("c-"), "{}", generated.name);
    assert_eq!(clusters.list().len(), 2);
}
