//! The objects of the workloads, as JSON: a ConfigMap of 1 KB, a pod of 2.5 KB, CustomResourceDefinitions.

use serde_json::{Value, json};

/// Length of a ConfigMap's JSON.
pub(crate) const CONFIG_MAP_BYTES: usize = 1024;

/// Length of a pod's JSON.
pub(crate) const POD_BYTES: usize = 2560;

/// Where ConfigMaps are created and listed.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Where pods are created and listed.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A ConfigMap, named by a slot; the same slot is in its data, so that an update changes something.
pub(crate) fn config_map(prefix: &str) -> String {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{prefix}-########"), "labels": {"app": "bench", "tier": "backend"}},
        "data": {"count": "########", "text": ""},
    });
    padded(object, "/data/text", CONFIG_MAP_BYTES)
}

/// The same ConfigMap as a protobuf message in its envelope. Numbers keep their width, so lengths stay.
pub(crate) fn config_map_message(prefix: &str) -> Vec<u8> {
    let object: Value = serde_json::from_str(&config_map(prefix)).expect("a ConfigMap is JSON");
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().as_bytes().to_vec()
    };
    let pair = |key: &str, value: Vec<u8>| [field(1, key.as_bytes()), field(2, &value)].concat();
    let metadata = [
        field(1, &text("/metadata/name")),
        field(11, &pair("app", text("/metadata/labels/app"))),
        field(11, &pair("tier", text("/metadata/labels/tier"))),
    ];
    let message = [
        field(1, &metadata.concat()),
        field(2, &pair("count", text("/data/count"))),
        field(2, &pair("text", text("/data/text"))),
    ];
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")];
    [
        b"k8s\0".to_vec(),
        field(1, &kind.concat()),
        field(2, &message.concat()),
    ]
    .concat()
}

/// One field of a protobuf message whose value has a length.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(value);
    out
}

/// The name of the CustomResourceDefinition with this number.
pub(crate) fn crd_name(number: u64) -> String {
    format!("things{number}.bench{}.example.com", number % 50)
}

/// A CustomResourceDefinition whose schema has about so many bytes and is similar to real ones: nested objects, each field
/// with a description.
pub(crate) fn crd(number: u64, schema_bytes: usize) -> String {
    let mut words = RandomWords(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut sections = serde_json::Map::new();
    let mut written = 0;
    while written < schema_bytes {
        let mut fields = serde_json::Map::new();
        for _ in 0..20 {
            let description = words.sentence(18);
            fields.insert(
                words.name(),
                json!({"type": "string", "description": description, "maxLength": 253}),
            );
        }
        let section = json!({"type": "object", "description": words.sentence(12), "properties": fields});
        written += section.to_string().len();
        sections.insert(words.name(), section);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(number)},
        "spec": {
            "group": format!("bench{}.example.com", number % 50),
            "scope": "Namespaced",
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": sections}}}}}],
        },
    })
    .to_string()
}

/// A generator of random words, deterministic by its seed.
#[derive(Debug)]
struct RandomWords(u64);

impl RandomWords {
    fn next(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn word(&mut self) -> String {
        const SYLLABLES: [&str; 24] = [
            "al", "ber", "con", "der", "en", "fa", "gor", "hi", "in", "ja", "ke", "lo", "me", "nor", "op",
            "per", "qui", "re", "sta", "ti", "un", "ver", "wa", "zen",
        ];
        let syllables = 1 + self.next(3);
        (0..syllables)
            .map(|_| SYLLABLES[self.next(SYLLABLES.len())])
            .collect()
    }

    fn name(&mut self) -> String {
        format!("{}{}{}", self.word(), self.word(), self.next(1000))
    }

    fn sentence(&mut self, words: usize) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }
}

/// The `schedulerName` of a pod, which determines whether the server's scheduler handles it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scheduler {
    /// The default scheduler. On a server without nodes each pod then also costs a status update and an event.
    Default,
    /// A scheduler that does not run: the pod is only created.
    Absent,
}

/// A pod that no scheduler handles.
pub(crate) fn pod(prefix: &str) -> String {
    pod_for(prefix, Scheduler::Absent)
}

/// A pod as a workload's author writes it: two containers with probes, resources, environment and volumes.
pub(crate) fn pod_for(prefix: &str, scheduler: Scheduler) -> String {
    let scheduler = match scheduler {
        Scheduler::Default => "default-scheduler",
        Scheduler::Absent => "bench-absent",
    };
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{prefix}-########"),
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "tier": "backend"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "example.com/text": ""},
        },
        "spec": {
            "containers": [container("web", 8080), container("proxy", 9090)],
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config"}},
                {"name": "cache", "emptyDir": {"sizeLimit": "64Mi"}},
            ],
            "restartPolicy": "Always",
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 30,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    });
    padded(object, "/metadata/annotations/example.com~1text", POD_BYTES)
}

fn container(name: &str, port: u16) -> Value {
    json!({
        "name": name,
        "image": format!("registry.example.com/shop/{name}:1.27.3"),
        "args": ["--listen=0.0.0.0", format!("--port={port}"), "--log-format=json"],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "UPSTREAM", "value": "http://orders.default.svc:8080"},
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web", "readOnly": true}, {"name": "cache", "mountPath": "/var/cache"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": name}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/live", "port": name}, "initialDelaySeconds": 10, "periodSeconds": 10},
    })
}

/// Fills one text of the object until its JSON has exactly this length.
fn padded(mut object: Value, pointer: &str, length: usize) -> String {
    let missing = length
        .checked_sub(object.to_string().len())
        .expect("the object is shorter than the target length");
    let text = object
        .pointer_mut(pointer)
        .expect("the text to fill is in the object");
    *text = Value::String("lorem ipsum ".chars().cycle().take(missing).collect());
    object.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(object: &str, length: usize, slots: usize) {
        assert_eq!(object.len(), length);
        assert_eq!(object.matches("########").count(), slots);
    }

    #[test]
    fn objects_have_their_length_and_their_slots() {
        check(&config_map("bench"), CONFIG_MAP_BYTES, 2);
        check(&pod("bench"), POD_BYTES, 1);
    }
}
