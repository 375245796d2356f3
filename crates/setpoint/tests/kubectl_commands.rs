//! kubectl's commands, each against the real binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl, manifest};

/// Rows: a command line, and the texts its output must contain.
type Rows<'a> = &'a [(&'a str, &'a [&'a str])];

fn api_only() -> Cluster {
    Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"])
}

/// Runs the rows in order. Every command must succeed and its output contain the row's texts.
#[track_caller]
fn check(kubectl: &Kubectl, rows: Rows<'_>) {
    let mut wrong = Vec::new();
    for (line, expected) in rows {
        let (code, stderr) = kubectl.outcome(line);
        let missing: Vec<_> = expected.iter().filter(|text| !stderr.contains(**text)).collect();
        if code != 0 || !missing.is_empty() {
            wrong.push(format!(
                "kubectl {line}: code {code}, without {missing:?}:\n{stderr}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  replicas: 2\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: main, image: '{image}'}}]}}\n"
    )
}

#[test]
fn get_prints_in_every_form() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create configmap a --from-literal=k=v", &["configmap/a created"]),
            ("label configmap a part=one", &["configmap/a labeled"]),
            ("get configmap a", &["NAME", "DATA", "AGE"]),
            ("get configmaps -A", &["NAMESPACE", "default"]),
            ("get cm a -o wide", &["NAME"]),
            ("get cm a -o yaml", &["kind: ConfigMap", "k: v"]),
            ("get cm a -o json", &["\"kind\": \"ConfigMap\""]),
            ("get cm a -o name", &["configmap/a"]),
            ("get cm a -o jsonpath={.data.k}", &["v"]),
            ("get cm a -o go-template={{.data.k}}", &["v"]),
            (
                "get cm -o custom-columns=N:.metadata.name,K:.data.k",
                &["N", "a", "v"],
            ),
            ("get cm -l part=one -o name", &["configmap/a"]),
            ("get cm --field-selector metadata.name=a --no-headers", &["a"]),
            ("get cm --show-labels", &["part=one"]),
            ("get cm -L part", &["PART"]),
            ("get cm --sort-by=.metadata.name", &["a"]),
            (
                "get cm a --show-managed-fields -o yaml",
                &["managedFields", "manager: kubectl-create"],
            ),
            (
                "get --raw /api/v1/namespaces/default/configmaps/a",
                &["\"ConfigMap\""],
            ),
            ("get cm,sa -o name", &["configmap/a"]),
            ("get ns", &["STATUS", "Active"]),
        ],
    );
}

#[test]
fn apply_creates_changes_and_prunes() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let one = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    let two = manifest(cluster.dir.path(), "two.yaml", &deployment("web", "a:2"));
    check(
        &kubectl,
        &[
            (&format!("apply -f {one}"), &["deployment.apps/web created"]),
            (&format!("apply -f {one}"), &["deployment.apps/web unchanged"]),
            (
                &format!("apply -f {two} --dry-run=server"),
                &["deployment.apps/web configured (server dry run)"],
            ),
            (&format!("apply -f {two}"), &["deployment.apps/web configured"]),
            ("apply view-last-applied deployment/web", &["a:2"]),
            (
                "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}",
                &["a:2"],
            ),
            (&format!("replace -f {one}"), &["deployment.apps/web replaced"]),
            (
                &format!("delete -f {one} --wait=false"),
                &["deployment.apps \"web\" deleted"],
            ),
        ],
    );
}

#[test]
fn server_side_apply_owns_fields_and_reports_conflicts() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let one = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    let two = manifest(cluster.dir.path(), "two.yaml", &deployment("web", "a:2"));
    check(
        &kubectl,
        &[
            (
                &format!("apply --server-side -f {one}"),
                &["deployment.apps/web serverside-applied"],
            ),
            (
                &format!("apply --server-side -f {one} --field-manager=other"),
                &["serverside-applied"],
            ),
        ],
    );
    let stderr = kubectl.fail(&format!("apply --server-side -f {two} --field-manager=other"));
    assert!(
        stderr.contains("conflict with \"kubectl\"") && stderr.contains(".image"),
        "{stderr}"
    );
    check(
        &kubectl,
        &[(
            &format!("apply --server-side --force-conflicts -f {two} --field-manager=other"),
            &["serverside-applied"],
        )],
    );
}

#[test]
fn diff_shows_what_apply_would_change() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let one = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    let two = manifest(cluster.dir.path(), "two.yaml", &deployment("web", "a:2"));
    check(
        &kubectl,
        &[
            (&format!("apply -f {one}"), &["created"]),
            (&format!("diff -f {one}"), &[]),
        ],
    );
    let (code, stderr) = kubectl.outcome(&format!("diff -f {two}"));
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("-      - image: a:1") && stderr.contains("+      - image: a:2"),
        "{stderr}"
    );
    let (code, stderr) = kubectl.outcome(&format!("diff --server-side -f {two}"));
    assert_eq!(code, 1, "{stderr}");
}

#[test]
fn edit_sends_what_the_editor_leaves() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let kubectl = kubectl.with("KUBE_EDITOR", "sed -i s/blue/green/");
    check(
        &kubectl,
        &[
            ("create configmap paint --from-literal=colour=blue", &["created"]),
            ("edit configmap paint", &["configmap/paint edited"]),
            ("get configmap paint -o jsonpath={.data.colour}", &["green"]),
        ],
    );
}

#[test]
fn patch_label_annotate_and_set_change_single_fields() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    check(
        &kubectl,
        &[
            (&format!("create -f {file}"), &["created"]),
            (
                "patch deployment web -p {\"spec\":{\"paused\":true}}",
                &["deployment.apps/web patched"],
            ),
            (
                "patch deployment web --type=merge -p {\"spec\":{\"paused\":null}}",
                &["patched"],
            ),
            (
                "patch deployment web --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}]",
                &["patched"],
            ),
            ("label deployment web tier=front", &["labeled"]),
            ("label deployment web tier=back --overwrite", &["labeled"]),
            ("label deployment web tier-", &["unlabeled"]),
            ("annotate deployment web note=kept", &["annotated"]),
            ("set image deployment/web main=a:3", &["image updated"]),
            ("set env deployment/web MODE=fast", &["env updated"]),
            (
                "set resources deployment/web --limits=cpu=1",
                &["resource requirements updated"],
            ),
            (
                "get deployment web -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[0].image}",
                &["3/a:3"],
            ),
        ],
    );
    let stderr = kubectl.fail("label deployment web bad=not!valid");
    assert!(stderr.contains("invalid label value"), "{stderr}");
}

#[test]
fn scale_goes_through_the_subresource() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    check(
        &kubectl,
        &[
            (&format!("create -f {file}"), &["created"]),
            (
                "scale deployment web --replicas=5",
                &["deployment.apps/web scaled"],
            ),
            (
                "scale deployment web --current-replicas=5 --replicas=4",
                &["scaled"],
            ),
            (
                "get deployment web --subresource=scale -o jsonpath={.spec.replicas}",
                &["4"],
            ),
            (
                "autoscale deployment web --min=1 --max=3",
                &["horizontalpodautoscaler.autoscaling/web autoscaled"],
            ),
        ],
    );
}

#[test]
fn create_and_expose_make_objects_of_many_kinds() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create namespace x", &["namespace/x created"]),
            (
                "create secret generic s --from-literal=a=b",
                &["secret/s created"],
            ),
            ("create serviceaccount robot", &["serviceaccount/robot created"]),
            (
                "create deployment web --image=a:1 --replicas=2",
                &["deployment.apps/web created"],
            ),
            ("create job once --image=a:1", &["job.batch/once created"]),
            ("create quota q --hard=pods=5", &["resourcequota/q created"]),
            (
                "create priorityclass high --value=1000",
                &["priorityclass.scheduling.k8s.io/high created"],
            ),
            (
                "create poddisruptionbudget b --selector=app=web --min-available=1",
                &["poddisruptionbudget.policy/b created"],
            ),
            (
                "create role r --verb=get --resource=pods",
                &["role.rbac.authorization.k8s.io/r created"],
            ),
            (
                "create rolebinding rb --role=r --serviceaccount=default:robot",
                &["created"],
            ),
            (
                "create clusterrole cr --verb=get,list --resource=nodes",
                &["created"],
            ),
            (
                "create clusterrolebinding crb --clusterrole=cr --user=jane",
                &["created"],
            ),
            (
                "create ingress i --rule=shop.example.com/=web:80",
                &["ingress.networking.k8s.io/i created"],
            ),
            ("create service clusterip c --tcp=80:80", &["service/c created"]),
            (
                "expose deployment web --port=80 --name=front",
                &["service/front exposed"],
            ),
            ("get all", &["service/front", "deployment.apps/web"]),
        ],
    );
}

#[test]
fn describe_reads_related_objects() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    check(
        &kubectl,
        &[
            (&format!("create -f {file}"), &["created"]),
            ("describe deployment web", &["Name:", "Replicas:", "a:1"]),
            ("create secret generic s --from-literal=a=b", &["created"]),
            ("describe secret s", &["Type:  Opaque", "a:  1 bytes"]),
            ("describe namespace default", &["Status:", "Active"]),
            ("describe nodes", &["Capacity:", "Conditions:"]),
            ("describe serviceaccount default", &["Name:"]),
            ("expose deployment web --port=80", &["exposed"]),
            ("describe service web", &["Port:", "Selector:"]),
            ("describe clusterrole view", &["PolicyRule:"]),
        ],
    );
}

#[test]
fn wait_sees_conditions_values_and_deletions() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            ("create configmap a --from-literal=k=v", &["created"]),
            (
                "wait --for=jsonpath={.data.k}=v configmap/a --timeout=20s",
                &["condition met"],
            ),
            ("wait --for=create configmap/a --timeout=20s", &["condition met"]),
            ("delete configmap a", &["deleted"]),
            ("wait --for=delete configmap/a --timeout=20s", &[]),
        ],
    );
}

#[test]
fn explain_and_api_resources_know_every_kind() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    check(
        &kubectl,
        &[
            (
                "api-resources",
                &["deployments", "deploy", "apps/v1", "Deployment"],
            ),
            (
                "api-resources --namespaced=false -o name",
                &["nodes", "clusterroles.rbac.authorization.k8s.io"],
            ),
            (
                "api-resources --categories=all -o name",
                &["pods", "services", "deployments.apps"],
            ),
            ("api-resources --verbs=list -o wide", &["VERBS", "CATEGORIES"]),
            ("api-versions", &["apps/v1", "rbac.authorization.k8s.io/v1"]),
            (
                "explain deployment",
                &["KIND:       Deployment", "spec\t<DeploymentSpec>"],
            ),
            (
                "explain pod.spec.containers.image",
                &["FIELD: image <string>", "DESCRIPTION:\n    Container image name."],
            ),
            ("explain deployment --recursive", &["matchLabels"]),
            ("explain hpa --api-version=autoscaling/v1", &["VERSION:    v1"]),
            ("cluster-info", &["Kubernetes control plane", "is running at"]),
            ("version", &["Server Version: v1.37"]),
        ],
    );
}

#[test]
fn nodes_are_tainted_cordoned_and_drained() {
    let cluster = Cluster::new(&["--memory", "--nodes", "2"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "rs.json", &cluster::replica_set("web", 2));
    kubectl.run(&format!("create -f {file}"));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=2 replicaset/web --timeout=60s");
    let node = kubectl.run("get pods -l app=web -o jsonpath={.items[0].spec.nodeName}");
    check(
        &kubectl,
        &[
            (
                &format!("taint node {node} reserved=yes:NoSchedule"),
                &["tainted"],
            ),
            (&format!("taint node {node} reserved-"), &["untainted"]),
            (&format!("cordon {node}"), &["cordoned"]),
            (&format!("uncordon {node}"), &["uncordoned"]),
            (
                &format!("drain {node} --ignore-daemonsets --force --timeout=60s"),
                &["evicting pod", "drained"],
            ),
            (&format!("get node {node}"), &["SchedulingDisabled"]),
        ],
    );
}

#[test]
fn rollouts_are_restarted_and_paused() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "one.yaml", &deployment("web", "a:1"));
    check(
        &kubectl,
        &[
            (&format!("create -f {file}"), &["created"]),
            (
                "rollout restart deployment/web",
                &["deployment.apps/web restarted"],
            ),
            ("rollout pause deployment/web", &["paused"]),
            ("rollout resume deployment/web", &["resumed"]),
            ("rollout history deployment/web", &["deployment.apps/web"]),
            (
                "rollout status deployment/web --watch=false",
                &["Waiting for deployment"],
            ),
        ],
    );
}

#[test]
fn events_are_listed_and_watched() {
    let cluster = Cluster::new(&["--memory"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "rs.json", &cluster::replica_set("web", 1));
    kubectl.run(&format!("create -f {file}"));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=1 replicaset/web --timeout=60s");
    check(
        &kubectl,
        &[
            ("events", &["SuccessfulCreate"]),
            ("events --for replicaset/web", &["SuccessfulCreate"]),
            ("events --types=Normal", &["Normal"]),
            ("get events --sort-by=.metadata.creationTimestamp", &["REASON"]),
            ("get events.events.k8s.io", &["SuccessfulCreate"]),
        ],
    );
}

#[test]
fn a_certificate_is_requested_and_approved() {
    let cluster = api_only();
    let Some(kubectl) = cluster.kubectl() else { return };
    let entries = setpoint_conformance::corpus::entries("corpus");
    let wish = entries
        .iter()
        .find(|entry| entry.id.ends_with("CertificateSigningRequest"))
        .unwrap();
    let file = manifest(cluster.dir.path(), "csr.json", &wish.object.to_string());
    check(
        &kubectl,
        &[
            (&format!("create -f {file}"), &["created"]),
            ("get csr", &["corpus-wish", "Pending"]),
            ("certificate approve corpus-wish", &["approved"]),
            ("get csr corpus-wish", &["Approved"]),
        ],
    );
}
