//! Quiet (CL5): when everything is as it should be, nobody writes, however often everything is looked at.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use setpoint_testkit::{Cluster, Part, RunningPart};

use crate::village;
use crate::world::names;

const ROUNDS: usize = 5;

/// Starts everything that runs beside the server and the nodes.
fn run_all(cluster: &Cluster) -> Vec<RunningPart> {
    let parts = village::parts().into_iter();
    let controllers = parts.filter(|part| !matches!(part, Part::Nodes(_)));
    controllers.map(|part| cluster.run(part)).collect()
}

/// CL5: a controller that starts looks at every object there is, so a start is a sync of everything.
#[tokio::test(start_paused = true)]
async fn cl5_further_syncs_of_every_controller_write_nothing() {
    let cluster = Cluster::start().await;
    let _nodes = cluster.run(Part::nodes(2));
    let mut parts = run_all(&cluster);
    for chapter in 0..village::CHAPTERS {
        village::tell(&cluster, chapter).await;
        cluster.advance(Duration::from_secs(180)).await;
        let before = cluster.portrait();
        if chapter == 0 {
            // Those who act on the time of day or for the server itself have had their turn too.
            let of_cron = |name: &String| name.starts_with("tick-");
            assert_eq!(
                names::<Job>(&cluster).iter().filter(|name| of_cron(name)).count(),
                1
            );
            assert_eq!(names::<ClusterTrustBundle>(&cluster).len(), 1);
        }
        cluster.link.clear();
        for _ in 0..ROUNDS {
            for part in parts.drain(..) {
                part.kill().await;
            }
            parts = run_all(&cluster);
            cluster.advance(Duration::from_secs(30)).await;
        }
        let mut writes = cluster.link.writes();
        // Nodes report themselves from time to time.
        writes.retain(|line| line != "kubelet update nodes/status");
        assert_eq!(writes, Vec::<String>::new(), "in chapter {chapter}");
        assert_eq!(cluster.portrait(), before);
    }
}
