//! Static pods: files of the node.

use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

#[test]
fn a_static_pod_runs_whatever_the_api_has() {
    isolated(
        "static_pods::a_static_pod_runs_whatever_the_api_has",
        |rig: &mut Rig| {
            let folder = rig.directory().join("manifests");
            let file = folder.join("web.yaml");
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(&file, pod("web", SLEEP, "", "")).unwrap();
            let flag = format!("--pod-manifest-path={}", folder.display());
            let flags = ["--eviction-hard=", "--image-gc-high-threshold=100", flag.as_str()];
            rig.restart_server_with(&flags);
            let container = "get pod web-n1 -o jsonpath={.status.containerStatuses[0].containerID}";
            rig.until("get pod web-n1 -o jsonpath={.status.phase}", "Running");
            let first = rig.run(container);
            let owner = rig.run("get pod web-n1 -o jsonpath={.metadata.ownerReferences[0].kind}");
            assert_eq!(owner, "Node");
            assert_eq!(rig.run("exec web-n1 -- hostname"), "web-n1\n");
            // Neither a deletion nor a restart of the agent touches its container.
            let mirror = rig.run("get pod web-n1 -o jsonpath={.metadata.uid}");
            rig.run("delete pod web-n1 --wait=false");
            rig.wait_until("the mirror is another one", || {
                let (found, uid) = rig.outcome("get pod web-n1 -o jsonpath={.metadata.uid}");
                found && uid != mirror
            });
            rig.until("get pod web-n1 -o jsonpath={.status.phase}", "Running");
            assert_eq!(rig.run(container), first);
            rig.restart_server_with(&flags);
            rig.run("wait pod/web-n1 --for=condition=Ready --timeout=60s");
            assert_eq!(rig.run(container), first);
            // A changed file is another pod; without the file there is none.
            std::fs::write(&file, pod("web", SLEEP, "env: [ { name: A, value: b } ]", "")).unwrap();
            rig.wait_until("another container runs", || {
                let (found, id) = rig.outcome(container);
                found && !id.is_empty() && id != first
            });
            assert!(rig.run("exec web-n1 -- env").contains("A=b\n"));
            std::fs::remove_file(&file).unwrap();
            rig.until("get pods", "No resources found");
        },
    );
}
