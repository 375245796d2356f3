//! Resize of a pod: a running container gets other resources without a restart.

use crate::cgroups::{check_content, find};
use crate::rig::{Rig, isolated};
use crate::{SLEEP, pod};

#[test]
fn a_running_container_is_resized_without_a_restart() {
    isolated(
        "resize::a_running_container_is_resized_without_a_restart",
        |rig: &mut Rig| {
            let resources = "resources: { requests: { cpu: 100m, memory: 32Mi }, limits: { memory: 64Mi } }";
            rig.apply(&pod("web", SLEEP, resources, ""));
            rig.run("wait pod/web --for=condition=Ready --timeout=60s");
            let before = rig.run("get pod web -o jsonpath={.status.containerStatuses[0].containerID}");
            let patch = |requests: &str| {
                let resources = format!(
                    "{{\\\"requests\\\":{{{requests},\\\"memory\\\":\\\"32Mi\\\"}},\\\"limits\\\":{{\\\"memory\\\":\\\"128Mi\\\"}}}}"
                );
                let container = format!("{{\\\"name\\\":\\\"main\\\",\\\"resources\\\":{resources}}}");
                format!(
                    "patch pod web --subresource=resize -p {{\\\"spec\\\":{{\\\"containers\\\":[{container}]}}}}"
                )
            };
            rig.run(&patch("\\\"cpu\\\":\\\"200m\\\""));
            rig.until(
                "get pod web -o jsonpath={.status.containerStatuses[0].resources.limits.memory}",
                "128Mi",
            );
            let uid = rig.run("get pod web -o jsonpath={.metadata.uid}");
            let of_pod = |file: &str| find(&format!("burstable/pod{uid}/{file}"));
            check_content(
                &[of_pod("memory.limit_in_bytes"), of_pod("memory.max")].concat(),
                "134217728",
            );
            let id = before.rsplit('/').next().unwrap();
            let container = [
                of_pod(&format!("{id}/memory.limit_in_bytes")),
                of_pod(&format!("{id}/memory.max")),
            ];
            check_content(&container.concat(), "134217728");
            let after = rig.run("get pod web -o jsonpath={.status.containerStatuses[0].containerID}");
            assert_eq!(after, before);
            // More than the node has is not granted.
            rig.run(&patch("\\\"cpu\\\":\\\"1000\\\""));
            let pending = "{.status.conditions[?(@.type=='PodResizePending')].reason}";
            rig.until(&format!("get pod web -o jsonpath={pending}"), "Deferred");
            let allocated =
                rig.run("get pod web -o jsonpath={.status.containerStatuses[0].allocatedResources.cpu}");
            assert_eq!(allocated, "200m");
        },
    );
}
