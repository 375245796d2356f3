//! CustomResourceDefinitions by kubectl: created while the server runs, and served like any other kind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl, manifest};

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wg], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        description: Widget turns things.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large the widget is.}
              parts: {type: array, items: {type: object, properties: {name: {type: string}}}}
"#;

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3}\n";

/// Rows: a command line, and the texts its output must contain.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

#[track_caller]
fn check(kubectl: &Kubectl, rows: Rows<'_>) {
    for (line, expected) in rows {
        let stdout = kubectl.run(line);
        let missing: Vec<_> = expected.iter().filter(|text| !stdout.contains(**text)).collect();
        assert!(
            missing.is_empty(),
            "kubectl {line} without {missing:?}:\n{stdout}"
        );
    }
}

/// Creates the CustomResourceDefinition and waits until it is established.
fn define(cluster: &Cluster, kubectl: &Kubectl) {
    let definition = manifest(cluster.dir.path(), "definition.yaml", DEFINITION);
    kubectl.run(&format!("apply -f {definition}"));
    kubectl.run("wait crd/widgets.example.com --for=condition=Established --timeout=30s");
}

#[test]
fn explain_prints_the_descriptions_of_a_custom_resource_definition() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    define(&cluster, &kubectl);
    check(
        &kubectl,
        &[
            (
                "explain widget",
                &[
                    "GROUP:      example.com",
                    "KIND:       Widget",
                    "Widget turns things.",
                    "APIVersion defines",
                    "metadata\t<ObjectMeta>",
                ],
            ),
            (
                "explain widget.metadata",
                &[
                    "Standard object's metadata",
                    "creationTimestamp\t<string>\n    CreationTimestamp is a timestamp",
                ],
            ),
            (
                "explain widget.spec.size",
                &["FIELD: size <integer>", "How large the widget is."],
            ),
            (
                "explain wg.spec --recursive",
                &["parts\t<[]Object>", "name\t<string>"],
            ),
            (
                "explain widget.metadata.labels",
                &["FIELD: labels <map[string]string>"],
            ),
        ],
    );
}

/// A CRD whose objects may have any field, and one with an open and a nullable field below its root.
const OPEN: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: openings.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: openings, kind: Opening}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: parts, kind: Part}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [none]
            properties:
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
              none: {type: object, nullable: true, properties: {a: {type: string}}}
              closed: {type: object, properties: {a: {type: string}}, additionalProperties: true}
"#;

/// kubectl validates the items of a List itself, by OpenAPI v2.
#[test]
fn kubectl_finds_no_unknown_fields_where_any_are_allowed() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let crds = manifest(cluster.dir.path(), "crds.yaml", OPEN);
    kubectl.run(&format!("apply -f {crds}"));
    kubectl
        .run("wait crd/openings.example.com crd/parts.example.com --for=condition=Established --timeout=30s");
    let list = "apiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: example.com/v1, kind: Opening, metadata: {name: a}, anything: {b: [1]}, other: 2}\n\
        - {apiVersion: example.com/v1, kind: Part, metadata: {name: a}, spec: {free: {a: x, other: 2}, none: null}}\n";
    let list = manifest(cluster.dir.path(), "list.yaml", list);
    check(
        &kubectl,
        &[
            (
                &format!("create -f {list}"),
                &["opening.example.com/a created", "part.example.com/a created"],
            ),
            ("explain opening", &["DESCRIPTION:\n    <empty>"]),
        ],
    );
    let unknown = "apiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: example.com/v1, kind: Part, metadata: {name: b}, spec: {none: null, bogus: 1}}\n";
    let unknown = manifest(cluster.dir.path(), "unknown.yaml", unknown);
    let stderr = kubectl.fail(&format!("create -f {unknown}"));
    assert!(stderr.contains("unknown field \"bogus\""), "{stderr}");
}

/// RBAC, tables, short names and categories know the kind without a restart.
#[test]
fn a_custom_kind_is_served_like_any_other() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    define(&cluster, &kubectl);
    let widget = manifest(cluster.dir.path(), "widget.yaml", WIDGET);
    check(
        &kubectl,
        &[
            (&format!("apply -f {widget}"), &["widget.example.com/a created"]),
            ("get wg", &["NAME", "SIZE", "a"]),
            ("get all -o name", &["widget.example.com/a"]),
            (
                "create role reader --verb=get --resource=widgets.example.com",
                &["created"],
            ),
            (
                "create rolebinding reader --role=reader --user=jane",
                &["created"],
            ),
            ("get widget a --as=jane -o name", &["widget.example.com/a"]),
        ],
    );
    let stderr = kubectl.fail("delete widget a --as=jane");
    assert!(
        stderr.contains("cannot delete resource \"widgets\" in API group \"example.com\""),
        "{stderr}"
    );
}

/// Custom objects are deleted with their namespace and owner even if the kind was added after the controllers started.
#[test]
fn custom_objects_are_deleted_with_their_namespace_and_their_owner() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    define(&cluster, &kubectl);
    let widget = manifest(cluster.dir.path(), "widget.yaml", WIDGET);
    kubectl.run(&format!("apply -f {widget}"));
    let uid = kubectl.run("get widget a -o jsonpath={.metadata.uid}");
    let owned = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  - {{apiVersion: example.com/v1, \
         kind: Widget, name: a, uid: {uid}}}\n"
    );
    let owned = manifest(cluster.dir.path(), "owned.yaml", &owned);
    kubectl.run(&format!("apply -f {owned}"));
    kubectl.run("delete widget a");
    kubectl.run("wait configmap/owned --for=delete --timeout=30s");
    kubectl.run("create namespace team");
    kubectl.run(&format!("apply -n team -f {widget}"));
    kubectl.run("delete namespace team --timeout=30s");
    assert_eq!(kubectl.run("get widgets -A -o name"), "");
}

fn deployment(labels: &str, container: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, labels: {labels}}}\nspec:\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{container}]}}\n"
    )
}

/// A field that an apply omits stays if it never set it, and is removed if it did.
#[test]
fn an_apply_in_three_ways_keeps_what_others_set() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let one = deployment(
        "{app: web, old: gone}",
        "{name: main, image: 'a:1', env: [{name: A, value: x}]}",
    );
    let two = deployment("{app: web, new: here}", "{name: main, image: 'a:2'}");
    let one = manifest(cluster.dir.path(), "one.yaml", &one);
    let two = manifest(cluster.dir.path(), "two.yaml", &two);
    kubectl.run(&format!("apply -f {one}"));
    kubectl.run("annotate deployment web others=note --field-manager=noter");
    kubectl.run("scale deployment web --replicas=5");
    let sidecar = r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"s:1"}]}}}}"#;
    kubectl.run(&format!(
        "patch deployment web --field-manager=injector --type=strategic -p {sidecar}"
    ));
    kubectl.run(&format!("apply -f {two}"));
    check(
        &kubectl,
        &[
            ("get deployment web -o jsonpath={.spec.replicas}", &["5"]),
            (
                "get deployment web -o jsonpath={.metadata.annotations.others}",
                &["note"],
            ),
            (
                "get deployment web -o jsonpath={.spec.template.spec.containers[*].image}",
                &["a:2", "s:1"],
            ),
            ("get deployment web -o jsonpath={.metadata.labels.new}", &["here"]),
        ],
    );
    let labels = kubectl.run("get deployment web -o jsonpath={.metadata.labels}");
    let containers = kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers}");
    assert!(
        !labels.contains("gone") && !containers.contains("env"),
        "{labels} {containers}"
    );
    let managers = kubectl
        .run("get deployment web --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}");
    assert!(
        managers.contains("noter") && managers.contains("injector"),
        "{managers}"
    );
}
