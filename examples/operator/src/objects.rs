//! What a database is made of: the objects that the operator asks for, with the fields it cares about and no others.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use setpoint_runtime::{Typed, owner};

use crate::database::Database;

/// Whose member a pod is.
pub const MEMBER_OF: &str = "db.example.com/member-of";
/// What a member runs.
pub const VERSION: &str = "db.example.com/version";
/// Which member takes writes.
pub const ROLE: &str = "db.example.com/role";
pub const PRIMARY: &str = "primary";
pub const REPLICA: &str = "replica";
/// How far a member has followed the primary: it keeps this annotation of its pod current.
pub const POSITION: &str = "db.example.com/position";
/// Whose backup a Job takes.
pub const BACKUP_OF: &str = "db.example.com/backup-of";
/// Says that a database may go without a last backup.
pub const SKIP_LAST: &str = "db.example.com/skip-last-backup";

const PORT: i32 = 5432;

/// The name of every member in the network.
pub fn members_service(database: &Typed<Database>) -> Service {
    let mut service = service(
        database,
        database.key().name(),
        labels(&[(MEMBER_OF, database.key().name())]),
    );
    service.spec.get_or_insert_default().cluster_ip = Some("None".to_owned());
    service
}

/// Where writes go: to whichever member has the role.
pub fn primary_service(database: &Typed<Database>) -> Service {
    let name = format!("{}-primary", database.key().name());
    let selector = labels(&[(MEMBER_OF, database.key().name()), (ROLE, PRIMARY)]);
    service(database, &name, selector)
}

/// The members. They are restarted by the operator, which knows the right order, and not by the StatefulSet.
pub fn stateful_set(database: &Typed<Database>, version: &str, members: i32) -> StatefulSet {
    let name = database.key().name();
    let container = Container {
        name: "database".to_owned(),
        image: Some(image(version)),
        ports: Some(vec![ContainerPort {
            container_port: PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        ..Container::default()
    };
    let spec = StatefulSetSpec {
        replicas: Some(members),
        service_name: Some(name.to_owned()),
        pod_management_policy: Some("Parallel".to_owned()),
        update_strategy: Some(StatefulSetUpdateStrategy {
            type_: Some("OnDelete".to_owned()),
            rolling_update: None,
        }),
        selector: LabelSelector {
            match_labels: Some(labels(&[(MEMBER_OF, name)])),
            ..LabelSelector::default()
        },
        template: template(labels(&[(MEMBER_OF, name), (VERSION, version)]), container, None),
        ..StatefulSetSpec::default()
    };
    StatefulSet {
        metadata: meta(database, name),
        spec,
        status: None,
    }
}

/// A backup that goes with the database.
pub fn backup(database: &Typed<Database>, name: &str, version: &str) -> Job {
    let of = database.key().name();
    let container = Container {
        name: "backup".to_owned(),
        image: Some(image(version)),
        args: Some(vec![
            "backup".to_owned(),
            "--from".to_owned(),
            format!("{of}-primary"),
        ]),
        ..Container::default()
    };
    let labels = labels(&[(BACKUP_OF, of)]);
    let mut metadata = meta(database, name);
    metadata.labels = Some(labels.clone());
    Job {
        metadata,
        spec: Some(JobSpec {
            backoff_limit: Some(2),
            template: template(labels, container, Some("Never")),
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// The backup that outlives the database.
pub fn last_backup(database: &Typed<Database>, version: &str) -> Job {
    let mut job = backup(database, &last_backup_name(database), version);
    job.metadata.owner_references = None;
    job
}

/// One for each database that had the name.
pub fn last_backup_name(database: &Typed<Database>) -> String {
    let uid = database.uid();
    format!("{}-last-{}", database.key().name(), &uid[..uid.len().min(8)])
}

fn service(database: &Typed<Database>, name: &str, selector: BTreeMap<String, String>) -> Service {
    let port = ServicePort {
        port: PORT,
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    Service {
        metadata: meta(database, name),
        spec: Some(ServiceSpec {
            selector: Some(selector),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn template(
    labels: BTreeMap<String, String>,
    container: Container,
    restart: Option<&str>,
) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![container],
            restart_policy: restart.map(ToOwned::to_owned),
            ..PodSpec::default()
        }),
    }
}

fn meta(database: &Typed<Database>, name: &str) -> ObjectMeta {
    let owners: Vec<OwnerReference> = vec![owner::controller_reference(database)];
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(database.key().namespace().to_owned()),
        owner_references: Some(owners),
        ..ObjectMeta::default()
    }
}

fn image(version: &str) -> String {
    format!("registry.example.com/database:{version}")
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}
