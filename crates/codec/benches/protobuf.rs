//! What it costs to read and write one ordinary pod, as JSON and as protobuf.
//!
//! `cargo bench -p setpoint-codec` prints nanoseconds for each operation: the best of several rounds, as others share
//! the machine.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench measures time and says what it found"
)]

use std::hint::black_box;
use std::time::Instant;

use setpoint_api::call::Encoding;
use setpoint_codec::protobuf::{self, TypeMeta};
use setpoint_codec::{FieldValidation, json, strict};
use setpoint_schema::{Map, Pack, write_into};

const ROUNDS: u32 = 20;
const TIMES: u32 = 2_000;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-7d9c5b6f4-x2k8p","generateName":"web-7d9c5b6f4-","namespace":"default","uid":"0b1f9a52-7c1e-4a53-9d0b-3f6f8f0f9f11","resourceVersion":"48213","generation":1,"creationTimestamp":"2026-11-15T20:10:11Z","labels":{"app":"web","pod-template-hash":"7d9c5b6f4"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d9c5b6f4","uid":"5b0c1b7a-2b57-4a0e-8a51-7d7b9b8d1c22","controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"kube-api-access-q8zvl","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"registry.k8s.io/e2e-test-images/nginx:1.15-4","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"limits":{"cpu":"500m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"64Mi"}},"volumeMounts":[{"name":"kube-api-access-q8zvl","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"readinessProbe":{"httpGet":{"path":"/","port":80,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-15T20:10:14Z"},{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-15T20:10:11Z"}],"hostIP":"10.0.0.17","podIP":"10.244.3.9","podIPs":[{"ip":"10.244.3.9"}],"startTime":"2026-11-15T20:10:11Z","qosClass":"Burstable"}}"#;

fn main() {
    let shape = Pack::builtin()
        .shape_of("", "v1", "Pod")
        .expect("pods are built in");
    let tree = json::parse(POD.as_bytes()).expect("the pod is JSON");
    let message = protobuf::encode(shape, &tree);
    let sealed = protobuf::envelope::seal(&TypeMeta::new("v1", "Pod"), &message);
    println!("{} bytes of JSON, {} of protobuf", POD.len(), message.len());
    measure("JSON to tree", || drop(black_box(json::parse(POD.as_bytes()))));
    measure("tree to JSON", || {
        let mut out = Vec::with_capacity(4096);
        write_into(shape, &tree, &mut out);
        black_box(out);
    });
    measure("protobuf to tree", || {
        let mut map = Map::default();
        protobuf::decode_message(&message, shape, &mut map).expect("it was just encoded");
        black_box(map);
    });
    measure("tree to protobuf", || {
        drop(black_box(protobuf::encode(shape, &tree)))
    });
    measure("JSON to protobuf", || {
        drop(black_box(protobuf::encode_json(shape, POD.as_bytes())))
    });
    for (name, encoding, body) in [
        ("JSON", Encoding::Json, POD.as_bytes()),
        ("protobuf", Encoding::Protobuf, &sealed),
    ] {
        measure(&format!("strict decoding of {name}"), || {
            drop(black_box(strict::decode(
                body,
                encoding,
                shape,
                FieldValidation::Strict,
            )))
        });
    }
}

fn measure(what: &str, mut work: impl FnMut()) {
    let mut round = || {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        start.elapsed().as_nanos() / u128::from(TIMES)
    };
    let best = (0..ROUNDS).map(|_| round()).min().expect("there are rounds");
    println!("{best:>10} ns  {what}");
}
