//! Real containers, by kubectl: what users do with pods, on a node with containerd.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "skipped tests are printed")]

mod cgroups;
mod eviction;
mod host_ports;
mod join;
mod kudo;
mod metrics;
mod phases;
mod recovery;
mod resize;
mod rig;
mod shutdown;
mod static_pods;
mod streams;

use rig::{Rig, isolated};

/// A pod of one container, whose further fields are lines of YAML.
fn pod(name: &str, script: &str, container: &str, spec: &str) -> String {
    let indent = |text: &str, by: usize| -> String {
        let lines = text.lines().map(|line| format!("{}{line}\n", " ".repeat(by)));
        lines.collect()
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, labels: {{ app: {name} }} }}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n{}  containers:\n  - name: main\n    image: busybox:test\n    \
         command: [sh, -c, {script:?}]\n{}",
        indent(spec, 2),
        indent(container, 4)
    )
}

const SLEEP: &str = "trap 'exit 0' TERM; while true; do sleep 0.2; done";

/// A script that succeeds if every line does.
fn check_script(lines: &[&str]) -> String {
    format!("set -ex; {}", lines.join("; "))
}

/// FL6, FL9
#[test]
fn a_deployment_runs_and_a_deleted_pod_is_replaced() {
    isolated(
        "a_deployment_runs_and_a_deleted_pod_is_replaced",
        |rig: &mut Rig| {
            rig.apply(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\nspec:\n  replicas: 2\n  \
             selector: { matchLabels: { app: web } }\n  template:\n    metadata: { labels: { app: web } }\n    \
             spec:\n      terminationGracePeriodSeconds: 1\n      containers:\n      - name: main\n        \
             image: busybox:test\n        command: [sh, -c, \"mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www\"]\n        \
             readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1 }\n",
        );
            rig.run("rollout status deployment/web --timeout=60s");
            let names = rig.run("get pods -l app=web -o jsonpath={.items[*].metadata.name}");
            let ips = rig.run("get pods -l app=web -o jsonpath={.items[*].status.podIP}");
            let (names, ips): (Vec<_>, Vec<_>) = (names.split(' ').collect(), ips.split(' ').collect());
            let fetch = format!("wget -qO- http://{}:8080/ | grep -x {}", ips[1], names[1]);
            rig.apply(&pod(
                "client",
                &check_script(&[&fetch]),
                "",
                "restartPolicy: Never",
            ));
            rig.until("get pod client -o jsonpath={.status.phase}", "Succeeded");
            rig.run(&format!("delete pod {} --timeout=60s", names[0]));
            rig.until("get deployment web -o jsonpath={.status.readyReplicas}", "2");
            let (_, gone) = rig.outcome(&format!("get pod {}", names[0]));
            assert!(gone.contains("not found"), "{gone}");
        },
    );
}

/// FL8
#[test]
fn containers_that_end_are_reported_and_restarted() {
    isolated(
        "containers_that_end_are_reported_and_restarted",
        |rig: &mut Rig| {
            rig.apply(&pod("crash", "exit 3", "", ""));
            rig.apply(&pod(
                "memory",
                "x=a; while true; do x=$x$x; done",
                "resources: { limits: { memory: 32Mi } }",
                "restartPolicy: Never",
            ));
            let probe = "livenessProbe: { exec: { command: [test, -f, /tmp/alive] }, periodSeconds: 1, failureThreshold: 1 }";
            rig.apply(&pod("unhealthy", SLEEP, probe, ""));
            rig.apply(&pod("init", SLEEP, "", "restartPolicy: Never\ninitContainers:\n- { name: first, image: busybox:test, command: [sh, -c, exit 5] }"));
            rig.apply("apiVersion: batch/v1\nkind: Job\nmetadata: { name: work }\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - { name: main, image: busybox:test, command: [sh, -c, 'echo done'] }\n");
            rig.apply(
                &pod("absent", SLEEP, "imagePullPolicy: Never", "").replace("busybox:test", "absent:1"),
            );
            rig.run("wait job/work --for=condition=Complete --timeout=60s");
            rig.until(
                "get pod memory -o jsonpath={.status.containerStatuses[0].state.terminated.reason}",
                "OOMKilled",
            );
            rig.until(
                "get pod crash -o jsonpath={.status.containerStatuses[0].state.waiting.reason}",
                "CrashLoopBackOff",
            );
            let last = rig.run(
                "get pod crash -o jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}",
            );
            assert_eq!(last, "3");
            rig.until("get pod init -o jsonpath={.status.phase}", "Failed");
            rig.until(
                "get pod absent -o jsonpath={.status.containerStatuses[0].state.waiting.reason}",
                "ErrImageNeverPull",
            );
            rig.until(
                "get pod unhealthy -o jsonpath={.status.containerStatuses[0].lastState.terminated.reason}",
                "Completed",
            );
            rig.until(
                "get events --field-selector involvedObject.name=unhealthy",
                "Liveness probe failed",
            );
        },
    );
}

#[test]
fn volumes_have_what_the_pod_requests() {
    isolated("volumes_have_what_the_pod_requests", |rig: &mut Rig| {
        rig.run("create configmap settings --from-literal=color=red");
        rig.run("create secret generic keys --from-literal=password=x1");
        let spec = "securityContext: { fsGroup: 3000 }\nvolumes:\n- { name: settings, configMap: { name: settings } }\n\
            - { name: keys, secret: { secretName: keys, defaultMode: 0400 } }\n- { name: scratch, emptyDir: { medium: Memory, sizeLimit: 1Mi } }\n\
            - { name: parts, emptyDir: {} }\n\
            - { name: about, downwardAPI: { items: [ { path: name, fieldRef: { fieldPath: metadata.name } } ] } }";
        let container = "env:\n- { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }\n\
            - { name: COLOR, valueFrom: { configMapKeyRef: { name: settings, key: color } } }\nvolumeMounts:\n\
            - { name: settings, mountPath: /settings }\n- { name: keys, mountPath: /keys }\n- { name: scratch, mountPath: /scratch }\n\
            - { name: parts, mountPath: /part, subPath: one/two }\n- { name: about, mountPath: /about }";
        let script = check_script(&[
            "[ $(cat /settings/color) = red ]",
            "[ $(cat /keys/password) = x1 ]",
            "[ $(cat /about/name) = web ]",
            "[ $COLOR = red ]",
            "[ $(stat -c %g:%a /keys/..data/password) = 3000:440 ]",
            "[ $(stat -c %g:%a /scratch) = 3000:2777 ]",
            "echo a > /part/file",
            "grep $POD_IP /etc/hosts",
            "grep ^ey /var/run/secrets/kubernetes.io/serviceaccount/token",
            "echo read > /dev/termination-log",
            "touch /tmp/read",
            "until [ $(cat /settings/color) = blue ]; do sleep 0.2; done",
        ]);
        let probe = "readinessProbe: { exec: { command: [test, -f, /tmp/read] }, periodSeconds: 1 }\n";
        rig.apply(&pod(
            "web",
            &script,
            &(probe.to_owned() + container),
            &("restartPolicy: Never\n".to_owned() + spec),
        ));
        rig.run("wait pod/web --for=condition=Ready --timeout=60s");
        rig.run("patch configmap settings --type=merge -p {\\\"data\\\":{\\\"color\\\":\\\"blue\\\"}}");
        rig.until("get pod web -o jsonpath={.status.phase}", "Succeeded");
        rig.run("delete pod web --timeout=60s");
    });
}

#[test]
fn logs_exec_and_port_forward_reach_a_container() {
    isolated("logs_exec_and_port_forward_reach_a_container", |rig: &mut Rig| {
        let script = "mkdir /www; echo hello > /www/index.html; echo started; exec httpd -f -p 8080 -h /www";
        rig.apply(&pod("web", script, "", ""));
        rig.run("wait pod/web --for=condition=Ready --timeout=60s");
        assert_eq!(rig.run("logs web"), "started\n");
        let (success, output) = rig.outcome("exec web -- sh -c 'echo out; exit 7'");
        assert!(!success && output.starts_with("out\n"), "{output}");
        assert!(output.contains("exit code 7"), "{output}");
        for websockets in ["true", "false"] {
            let mut exec = rig.command("exec -i web -- cat");
            exec.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            assert_eq!(rig::with_input(&mut exec, "a line"), "a line");
        }
        assert!(
            rig.forward("pod/web", 8080, "GET / HTTP/1.0\r\n\r\n")
                .ends_with("hello\n")
        );
    });
}

/// CL7
#[test]
fn containers_go_on_while_the_agent_and_containerd_are_killed() {
    isolated(
        "containers_go_on_while_the_agent_and_containerd_are_killed",
        |rig: &mut Rig| {
            for number in 0..5 {
                rig.apply(&pod(&format!("web-{number}"), SLEEP, "", ""));
            }
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            let before = rig.run("get pods -o jsonpath={.items[*].status.containerStatuses[0].containerID}");
            rig.restart_server();
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            rig.restart_containerd();
            rig.apply(&pod("later", SLEEP, "", ""));
            rig.run("wait pod/later --for=condition=Ready --timeout=60s");
            rig.run("delete pod later --timeout=60s");
            let after = rig.run("get pods -o jsonpath={.items[*].status.containerStatuses[0].containerID}");
            assert_eq!(after, before);
            let restarts =
                rig.run("get pods -o jsonpath={.items[*].status.containerStatuses[0].restartCount}");
            assert_eq!(restarts, "0 0 0 0 0");
            rig.run("drain n1 --force --timeout=60s");
            rig.until("get pods", "No resources found");
        },
    );
}

#[test]
fn a_claimed_volume_has_its_data_after_a_restart() {
    isolated(
        "a_claimed_volume_has_its_data_after_a_restart",
        |rig: &mut Rig| {
            rig.apply(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: disk }\nspec:\n  capacity: { storage: 1Gi }\n  \
             accessModes: [ReadWriteOnce]\n  storageClassName: manual\n  hostPath: { path: /run/disk, type: DirectoryOrCreate }\n\
             ---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data }\nspec:\n  storageClassName: manual\n  \
             accessModes: [ReadWriteOnce]\n  resources: { requests: { storage: 1Gi } }\n",
        );
            let spec = "volumes: [ { name: data, persistentVolumeClaim: { claimName: data } } ]";
            let mount = "volumeMounts: [ { name: data, mountPath: /data } ]";
            let spec = format!("restartPolicy: Never\n{spec}");
            rig.apply(&pod("writer", "echo kept > /data/file", mount, &spec));
            rig.until("get pod writer -o jsonpath={.status.phase}", "Succeeded");
            rig.run("delete pod writer --timeout=60s");
            rig.apply(&pod("reader", "grep -x kept /data/file", mount, &spec));
            rig.until("get pod reader -o jsonpath={.status.phase}", "Succeeded");
        },
    );
}

#[test]
fn a_stateful_set_gets_volumes_of_the_default_class() {
    isolated(
        "a_stateful_set_gets_volumes_of_the_default_class",
        |rig: &mut Rig| {
            rig.apply(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: { name: db }\nspec:\n  replicas: 1\n  serviceName: db\n  \
             selector: { matchLabels: { app: db } }\n  persistentVolumeClaimRetentionPolicy: { whenDeleted: Delete }\n  \
             volumeClaimTemplates:\n  - metadata: { name: data }\n    spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n  \
             template:\n    metadata: { labels: { app: db } }\n    spec:\n      terminationGracePeriodSeconds: 1\n      containers:\n      \
             - name: main\n        image: busybox:test\n        command: [sh, -c, 'echo x >> /data/starts; exec sleep 1000']\n        \
             volumeMounts: [ { name: data, mountPath: /data } ]\n",
        );
            rig.until("get pod db-0 -o jsonpath={.status.phase}", "Running");
            let bound = rig.run("get pvc data-db-0 -o jsonpath={.spec.storageClassName}/{.status.phase}");
            assert_eq!(bound, "local-path/Bound");
            rig.run("delete pod db-0 --timeout=60s");
            rig.until("get statefulset db -o jsonpath={.status.readyReplicas}", "1");
            rig.run("delete statefulset db --timeout=60s");
            rig.until("get pv", "No resources found");
        },
    );
}
