//! Rows: a pod in YAML's terms (JSON), and what its sandbox or container is configured with.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use serde_json::{Value, json};
use setpoint_container_runtime::container::{Mount, SeccompProfile};
use setpoint_container_runtime::sandbox::DnsConfig;
use setpoint_container_runtime::{ContainerConfig, SandboxConfig};

use super::*;
use crate::volumes::MountedVolume;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// A pod with this spec and one container `main`, whose further fields are these.
fn pod(spec: Value, container: Value) -> v1::Pod {
    let mut main = json!({ "name": "main", "image": "busybox" });
    merge(&mut main, container);
    let mut whole = json!({ "containers": [main] });
    merge(&mut whole, spec);
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "team-1", "uid": "u-1",
            "labels": { "app": "web" }, "annotations": { "note": "a \"b\"\nc" },
        },
        "spec": whole,
    }))
    .unwrap()
}

fn merge(into: &mut Value, from: Value) {
    let fields = from.as_object().cloned().unwrap_or_default();
    into.as_object_mut().unwrap().extend(fields);
}

fn node() -> NodeFacts {
    NodeFacts {
        name: "n1".to_owned(),
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        allocatable: [("cpu", "4"), ("memory", "8Gi")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        memory_capacity: 10 << 30,
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".to_owned(),
        host_dns: parse_resolv_conf(
            "# x\nnameserver 192.0.2.53\nsearch corp.example. .\noptions ndots:1 rotate\n",
        ),
        logs_root: "/var/log/pods".into(),
        root: tempfile::tempdir().unwrap().keep(),
        cgroup_root: "/kubepods".to_owned(),
    }
}

/// The configuration of the container `main`, with these sources, volumes and image.
struct Request {
    sources: EnvSources,
    volumes: MountedVolumes,
    image: ImageFacts,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            sources: EnvSources {
                services: Some(Vec::new()),
                ..EnvSources::default()
            },
            volumes: MountedVolumes::default(),
            image: ImageFacts {
                reference: "sha256:1".to_owned(),
                ..ImageFacts::default()
            },
        }
    }
}

impl Request {
    fn config(&self, pod: &v1::Pod) -> Result<ContainerConfig, String> {
        let mut node = node();
        node.logs_root = node.root.join("logs");
        let addresses: [IpAddr; 2] = ["10.244.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let made = container_config(ContainerRequest {
            pod,
            container: &spec(pod).containers[0],
            node: &node,
            attempt: 2,
            image: &self.image,
            pod_addresses: &addresses,
            volumes: &self.volumes,
            sources: &self.sources,
            target: None,
        });
        std::fs::remove_dir_all(&node.root).unwrap();
        made.map_err(|error| error.0)
    }
}

fn config(pod: &v1::Pod) -> ContainerConfig {
    Request::default().config(pod).unwrap()
}

#[track_caller]
fn check_env(request: &Request, container: Value, expected: &[(&str, &str)]) {
    let env: BTreeMap<_, _> = request
        .config(&pod(json!({}), container))
        .unwrap()
        .env
        .into_iter()
        .collect();
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    assert_eq!(env, expected);
}

fn sources() -> Request {
    let data = |entries: &[(&str, &str)]| {
        Ok(entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect())
    };
    let absent = |kind: &str| {
        Err(SourceError {
            is_absent: true,
            message: format!("{kind} \"absent\" not found"),
        })
    };
    let mut request = Request::default();
    request
        .sources
        .config_maps
        .insert("settings".to_owned(), data(&[("LEVEL", "low"), ("COLOR", "red")]));
    request
        .sources
        .config_maps
        .insert("absent".to_owned(), absent("configmap"));
    request
        .sources
        .secrets
        .insert("keys".to_owned(), data(&[("password", "x1")]));
    request
        .sources
        .secrets
        .insert("absent".to_owned(), absent("secret"));
    request
}

#[test]
fn variables_refer_to_earlier_ones() {
    let env = json!({ "env": [
        { "name": "A", "value": "1" }, { "name": "B", "value": "$(A)-$(C)" }, { "name": "C", "value": "$$(A)" },
        { "name": "EMPTY" },
    ] });
    check_env(
        &Request::default(),
        env,
        &[("A", "1"), ("B", "1-$(C)"), ("C", "$(A)"), ("EMPTY", "")],
    );
}

#[test]
fn variables_come_from_config_maps_and_secrets() {
    let env = json!({
        "envFrom": [
            { "configMapRef": { "name": "settings" }, "prefix": "MY_" },
            { "configMapRef": { "name": "absent", "optional": true } },
            { "secretRef": { "name": "absent", "optional": true } },
        ],
        "env": [
            { "name": "MY_COLOR", "value": "blue" },
            { "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "password" } } },
            { "name": "NONE", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "no", "optional": true } } },
        ],
    });
    check_env(
        &sources(),
        env,
        &[("MY_LEVEL", "low"), ("MY_COLOR", "blue"), ("PASSWORD", "x1")],
    );
}

#[track_caller]
fn check_error(request: &Request, pod: &v1::Pod, expected: &str) {
    assert_eq!(
        request.config(pod).map(|config| config.env),
        Err(expected.to_owned())
    );
}

#[test]
fn a_source_that_does_not_exist_is_an_error() {
    let variable = |from: Value| pod(json!({}), json!({ "env": [{ "name": "A", "valueFrom": from }] }));
    let request = sources();
    let absent = variable(json!({ "configMapKeyRef": { "name": "absent", "key": "a" } }));
    check_error(&request, &absent, "configmap \"absent\" not found");
    let absent = variable(json!({ "secretKeyRef": { "name": "absent", "key": "a" } }));
    check_error(&request, &absent, "secret \"absent\" not found");
    let no_key = variable(json!({ "configMapKeyRef": { "name": "settings", "key": "no" } }));
    check_error(
        &request,
        &no_key,
        "couldn't find key no in ConfigMap team-1/settings",
    );
    let no_key = variable(json!({ "secretKeyRef": { "name": "keys", "key": "no" } }));
    check_error(&request, &no_key, "couldn't find key no in Secret team-1/keys");
    let field = variable(json!({ "fieldRef": { "fieldPath": "spec.priority" } }));
    check_error(&request, &field, "unsupported fieldPath: spec.priority");
}

#[test]
fn fields_of_the_pod_are_variables() {
    let fields = [
        ("metadata.name", "web"),
        ("metadata.namespace", "team-1"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations", "note=\"a \\\"b\\\"\\nc\""),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.244.0.5"),
        ("status.podIPs", "10.244.0.5,fd00::5"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1,2001:db8::1"),
    ];
    for (path, expected) in fields {
        let env = json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": path } } }] });
        let pod = pod(json!({ "nodeName": "n1", "serviceAccountName": "robot" }), env);
        assert_eq!(
            config(&pod).env,
            [("A".to_owned(), expected.to_owned())],
            "{path}"
        );
    }
}

#[test]
fn resources_are_divided_and_rounded_up() {
    let rows = [
        ("limits.cpu", None, "1"),
        ("limits.cpu", Some("1m"), "500"),
        ("requests.cpu", Some("1m"), "250"),
        ("limits.memory", Some("1Mi"), "64"),
        ("requests.memory", None, "0"),
        ("limits.ephemeral-storage", None, "0"),
    ];
    for (resource, divisor, expected) in rows {
        let reference = json!({ "resource": resource, "divisor": divisor.unwrap_or("0") });
        let container = json!({
            "resources": { "limits": { "cpu": "500m", "memory": "64Mi" }, "requests": { "cpu": "250m" } },
            "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": reference } }],
        });
        let env = config(&pod(json!({}), container)).env;
        assert_eq!(
            env,
            [("A".to_owned(), expected.to_owned())],
            "{resource} {divisor:?}"
        );
    }
    let reference = json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } }] });
    let env = config(&pod(json!({}), reference)).env;
    assert_eq!(
        env[0].1,
        (8_i64 << 30).to_string(),
        "a limit that is not set is what the node has"
    );
}

#[test]
fn a_container_waits_until_services_have_been_read_and_that_of_a_static_pod_does_not() {
    let mut request = Request::default();
    request.sources.services = None;
    let unread = "services have not yet been read at least once, cannot construct envvars";
    let mut pod = pod(json!({}), json!({}));
    assert_eq!(request.config(&pod).unwrap_err(), unread);
    let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
    pod.metadata.annotations = Some([source].into());
    assert!(request.config(&pod).is_ok());
}

#[test]
fn services_are_variables() {
    let service = |namespace: &str, name: &str, address: &str| -> ServiceView {
        serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "clusterIP": address, "ports": [{ "name": "http-x", "port": 80 }] },
        }))
        .unwrap()
    };
    let mut request = Request::default();
    request.sources.services = Some(vec![
        service("default", "kubernetes", "10.96.0.1"),
        service("team-1", "my-db", "10.96.0.9"),
        service("team-1", "headless", "None"),
        service("other", "else", "10.96.0.8"),
    ]);
    let names = |spec: Value| -> Vec<String> {
        let env = request.config(&pod(spec, json!({}))).unwrap().env;
        env.into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    };
    let all = names(json!({}));
    for expected in [
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "MY_DB_SERVICE_HOST=10.96.0.9",
        "MY_DB_SERVICE_PORT=80",
        "MY_DB_SERVICE_PORT_HTTP_X=80",
        "MY_DB_PORT=tcp://10.96.0.9:80",
        "MY_DB_PORT_80_TCP=tcp://10.96.0.9:80",
        "MY_DB_PORT_80_TCP_PROTO=tcp",
        "MY_DB_PORT_80_TCP_PORT=80",
        "MY_DB_PORT_80_TCP_ADDR=10.96.0.9",
    ] {
        assert!(all.iter().any(|line| line == expected), "{expected} in {all:?}");
    }
    assert_eq!(all.len(), 16);
    assert_eq!(names(json!({ "enableServiceLinks": false })).len(), 8);
}

#[test]
fn commands_and_arguments_refer_to_variables() {
    let made = config(&pod(
        json!({}),
        json!({ "command": ["echo", "$(A)"], "args": ["$(B)", "$$(A)"], "env": [{ "name": "A", "value": "1" }] }),
    ));
    assert_eq!(
        (made.command, made.args),
        (strings(&["echo", "1"]), strings(&["$(B)", "$(A)"]))
    );
}

#[test]
fn the_container_overrides_the_security_context_of_the_pod() {
    let spec = json!({ "securityContext": {
        "runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000],
        "seccompProfile": { "type": "RuntimeDefault" },
    } });
    let security = config(&pod(spec.clone(), json!({}))).security;
    assert_eq!(
        (security.run_as_user, security.run_as_group),
        (Some(1000), Some(2000))
    );
    assert_eq!(security.supplemental_groups, [3000, 4000]);
    assert_eq!(security.seccomp, SeccompProfile::RuntimeDefault);
    assert!(security.masked_paths.contains(&"/proc/kcore".to_owned()));
    let own = json!({ "securityContext": {
        "runAsUser": 5, "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] }, "procMount": "Unmasked",
        "seccompProfile": { "type": "Unconfined" },
    } });
    let security = config(&pod(spec, own)).security;
    assert_eq!(
        (security.run_as_user, security.run_as_group),
        (Some(5), Some(2000))
    );
    assert!(security.privileged && security.read_only_root && security.no_new_privileges);
    assert_eq!(
        (security.add_capabilities, security.drop_capabilities),
        (strings(&["NET_ADMIN"]), strings(&["ALL"]))
    );
    assert_eq!(
        (security.seccomp, security.masked_paths.len()),
        (SeccompProfile::Unconfined, 0)
    );
}

#[track_caller]
fn check_non_root(user: Option<i64>, image: (Option<i64>, &str), expected: Option<&str>) {
    let request = Request {
        image: ImageFacts {
            uid: image.0,
            username: image.1.to_owned(),
            ..ImageFacts::default()
        },
        ..Request::default()
    };
    let pod = pod(
        json!({ "securityContext": { "runAsNonRoot": true, "runAsUser": user } }),
        json!({}),
    );
    let error = request.config(&pod).err();
    assert_eq!(
        error,
        expected.map(|text| format!("{text} (pod: \"web_team-1(u-1)\", container: main)"))
    );
}

#[test]
fn a_root_user_breaks_the_non_root_policy() {
    check_non_root(
        Some(0),
        (None, ""),
        Some("container's runAsUser breaks non-root policy"),
    );
    check_non_root(
        None,
        (Some(0), ""),
        Some("container has runAsNonRoot and image will run as root"),
    );
    let text =
        "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root";
    check_non_root(None, (None, "www"), Some(text));
    check_non_root(Some(7), (Some(0), ""), None);
    check_non_root(None, (Some(7), ""), None);
    check_non_root(None, (None, ""), None);
}

#[track_caller]
fn check_resources(resources: Value, cpu: (i64, i64), memory: (i64, i64), cgroup: &str) {
    let pod = pod(json!({}), json!({ "resources": resources }));
    let made = config(&pod).resources;
    assert_eq!((made.cpu_shares, made.cpu_quota), cpu);
    assert_eq!((made.memory_limit, made.oom_score_adj), memory);
    assert_eq!(cgroup_parent(&pod, &node()), cgroup);
}

#[test]
fn resources_follow_the_quality_of_service() {
    check_resources(json!({}), (2, 0), (0, 1000), "/kubepods/besteffort/podu-1");
    check_resources(
        json!({ "requests": { "cpu": "100m", "memory": "1Gi" }, "limits": { "cpu": "250m" } }),
        (102, 25_000),
        (0, 900),
        "/kubepods/burstable/podu-1",
    );
    check_resources(
        json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } }),
        (1024, 100_000),
        (1 << 30, -997),
        "/kubepods/podu-1",
    );
    check_resources(
        json!({ "limits": { "cpu": "1m" } }),
        (2, 1000),
        (0, 999),
        "/kubepods/burstable/podu-1",
    );
}

fn sandbox(spec: Value) -> SandboxConfig {
    sandbox_config(&pod(spec, json!({})), &node()).unwrap()
}

#[track_caller]
fn check_dns(spec: Value, servers: &[&str], searches: &[&str], options: &[&str]) {
    let expected = DnsConfig {
        servers: strings(servers),
        searches: strings(searches),
        options: strings(options),
    };
    assert_eq!(sandbox(spec).dns, Some(expected));
}

#[test]
fn the_dns_policy_selects_the_servers() {
    let cluster = [
        "team-1.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
        "corp.example",
    ];
    check_dns(
        json!({ "dnsPolicy": "ClusterFirst" }),
        &["10.96.0.10"],
        &cluster,
        &["ndots:5"],
    );
    let host = (
        &["192.0.2.53"][..],
        &["corp.example"][..],
        &["ndots:1", "rotate"][..],
    );
    check_dns(json!({ "dnsPolicy": "Default" }), host.0, host.1, host.2);
    check_dns(
        json!({ "dnsPolicy": "ClusterFirst", "hostNetwork": true }),
        host.0,
        host.1,
        host.2,
    );
    let with_host = json!({ "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true });
    check_dns(with_host, &["10.96.0.10"], &cluster, &["ndots:5"]);
    let own = json!({ "nameservers": ["1.1.1.1"], "searches": ["a.b"], "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }] });
    check_dns(
        json!({ "dnsPolicy": "None", "dnsConfig": own }),
        &["1.1.1.1"],
        &["a.b"],
        &["ndots:2", "edns0"],
    );
}

#[test]
fn the_host_name_is_that_of_the_pod_unless_it_has_its_own() {
    assert_eq!(sandbox(json!({})).hostname, "web");
    assert_eq!(sandbox(json!({ "hostNetwork": true })).hostname, "");
    assert_eq!(
        sandbox(json!({ "hostname": "db-0", "subdomain": "db" })).hostname,
        "db-0"
    );
    let fqdn = json!({ "hostname": "db-0", "subdomain": "db", "setHostnameAsFQDN": true });
    assert_eq!(sandbox(fqdn).hostname, "db-0.db.team-1.svc.cluster.local");
    let long = "x".repeat(62) + "-y";
    assert_eq!(sandbox(json!({ "hostname": long })).hostname, "x".repeat(62));
    let long = json!({ "hostname": "x".repeat(40), "subdomain": "db", "setHostnameAsFQDN": true });
    let error = sandbox_config(&pod(long, json!({})), &node()).unwrap_err().0;
    let fqdn = format!("{}.db.team-1.svc.cluster.local", "x".repeat(40));
    assert_eq!(
        error,
        format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, 68 characters requested)"
        )
    );
}

#[test]
fn a_sandbox_has_the_ports_and_labels_of_its_pod() {
    let ports = json!({ "ports": [{ "containerPort": 80, "hostPort": 8080 }, { "containerPort": 81 }] });
    let made = sandbox_config(&pod(json!({ "hostPID": true }), ports), &node()).unwrap();
    assert_eq!(made.port_mappings.len(), 1);
    assert_eq!(
        (
            made.port_mappings[0].container_port,
            made.port_mappings[0].host_port
        ),
        (80, 8080)
    );
    assert_eq!(made.log_directory, "/var/log/pods/team-1_web_u-1");
    assert!(made.namespaces.host_pid && !made.namespaces.host_network);
    let label = |name: &str| made.labels.get(name).map(String::as_str);
    assert_eq!(
        (label("app"), label("io.kubernetes.pod.uid")),
        (Some("web"), Some("u-1"))
    );
}

#[test]
fn a_container_has_the_labels_of_the_kubelet() {
    let pod = pod(
        json!({ "terminationGracePeriodSeconds": 7 }),
        json!({ "ports": [{ "containerPort": 80 }] }),
    );
    let made = config(&pod);
    assert_eq!(made.labels["io.kubernetes.container.name"], "main");
    assert_eq!(made.annotations["io.kubernetes.container.restartCount"], "2");
    assert_eq!(made.annotations["io.kubernetes.pod.terminationGracePeriod"], "7");
    assert_eq!(
        made.annotations["io.kubernetes.container.ports"],
        "[{\"containerPort\":80}]"
    );
    assert_eq!((made.log_path.as_str(), made.attempt), ("main/2.log", 2));
}

fn with_volume(volume: MountedVolume) -> Request {
    Request {
        volumes: [("data".to_owned(), volume)].into_iter().collect(),
        ..Request::default()
    }
}

#[test]
fn volumes_are_mounted_with_the_hosts_file_and_the_termination_message() {
    let container = json!({
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{ "name": "data", "mountPath": "data", "mountPropagation": "HostToContainer" }],
    });
    let request = with_volume(MountedVolume {
        path: "/var/data".into(),
        read_only: true,
        image: None,
    });
    let mounts = request.config(&pod(json!({}), container)).unwrap().mounts;
    let paths: Vec<_> = mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    assert_eq!(paths, ["/data", "/etc/hosts", "/dev/termination-log"]);
    let expected = Mount {
        container_path: "/data".to_owned(),
        host_path: "/var/data".to_owned(),
        read_only: true,
        propagation: setpoint_container_runtime::container::Propagation::HostToContainer,
        ..Mount::default()
    };
    assert_eq!(mounts[0], expected);
}

#[test]
fn a_mount_that_cannot_be_made_is_an_error() {
    let request = with_volume(MountedVolume::at("/var/data".into()));
    let mount = |mut fields: Value| {
        merge(&mut fields, json!({ "mountPath": "/data" }));
        pod(json!({}), json!({ "volumeMounts": [fields] }))
    };
    let absent = mount(json!({ "name": "absent" }));
    check_error(
        &request,
        &absent,
        "cannot find volume \"absent\" to mount into container \"main\"",
    );
    let absolute = mount(json!({ "name": "data", "subPath": "/etc" }));
    check_error(
        &request,
        &absolute,
        "error SubPath `/etc` must not be an absolute path",
    );
    let up = mount(json!({ "name": "data", "subPath": "a/../b" }));
    check_error(
        &request,
        &up,
        "unable to provision SubPath `a/../b`: must not contain '..'",
    );
    let missing = mount(json!({ "name": "data", "subPathExpr": "$(B)/$(A)" }));
    check_error(&request, &missing, "missing value for A, B");
    let recursive = mount(json!({ "name": "data", "readOnly": true, "recursiveReadOnly": "Enabled" }));
    check_error(
        &request,
        &recursive,
        "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but it is not supported by the runtime",
    );
}

#[test]
fn the_hosts_file_has_the_pod_and_its_aliases() {
    let addresses: Vec<IpAddr> = vec!["10.244.0.5".parse().unwrap()];
    let aliases = [v1::HostAlias {
        ip: "192.0.2.9".to_owned(),
        hostnames: Some(strings(&["a", "b"])),
    }];
    let text = hosts::pod_hosts(&addresses, "db-0", "db.team-1.svc.cluster.local", &aliases);
    let end = "10.244.0.5\tdb-0.db.team-1.svc.cluster.local\tdb-0\n\n# Entries added by HostAliases.\n192.0.2.9\ta\tb\n";
    assert!(
        text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n") && text.ends_with(end),
        "{text}"
    );
    let text = hosts::host_network_hosts("127.0.0.1 localhost\n", &[]);
    assert_eq!(
        text,
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
    );
}

#[test]
fn isolation_that_the_node_does_not_have_is_an_error() {
    let users = pod(json!({ "hostUsers": false }), json!({}));
    let error = sandbox_config(&users, &node()).unwrap_err().0;
    assert_eq!(
        error,
        "RuntimeClass handler \"\" does not support user namespaces"
    );
    let profile = |kind: &str| {
        let profile = json!({ "type": kind, "localhostProfile": "strict" });
        pod(
            json!({ "securityContext": { "appArmorProfile": profile } }),
            json!({}),
        )
    };
    let request = Request::default();
    assert_eq!(
        request.config(&profile("Localhost")).unwrap_err(),
        "Cannot enforce AppArmor: profiles of the node are not supported: \"strict\""
    );
    assert!(request.config(&profile("RuntimeDefault")).is_ok());
}

#[test]
fn the_largest_amounts_of_resources_do_not_overflow() {
    let most = i64::MAX.to_string();
    let resource = |name: &str| json!({ "resourceFieldRef": { "resource": name, "divisor": "2" } });
    let container = json!({
        "resources": { "limits": { "cpu": most, "memory": most }, "requests": { "memory": "1000P" } },
        "env": [{ "name": "MEMORY", "valueFrom": resource("limits.memory") }],
    });
    let config = config(&pod(json!({}), container));
    assert!(
        config
            .env
            .contains(&("MEMORY".to_owned(), (1_u64 << 62).to_string()))
    );
    assert_eq!(config.resources.cpu_shares, 262_144);
    assert!(config.resources.cpu_quota > 0);
    assert!((2..1000).contains(&config.resources.oom_score_adj));
}
