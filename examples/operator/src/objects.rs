//! The objects of a database, with only the fields that the operator manages.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use setpoint_runtime::{TypedObject, owner};

use crate::database::Database;

/// Label of a member: its database.
pub const MEMBER_OF: &str = "db.example.com/member-of";
/// Label of a member: its version.
pub const VERSION: &str = "db.example.com/version";
/// Label of a member: its role. The primary takes writes.
pub const ROLE: &str = "db.example.com/role";
pub const PRIMARY: &str = "primary";
pub const REPLICA: &str = "replica";
/// Annotation of a member: its replication position, which it keeps current.
pub const POSITION: &str = "db.example.com/position";
/// Label of a backup Job: its database.
pub const BACKUP_OF: &str = "db.example.com/backup-of";
/// Annotation of a database that may be deleted without a last backup.
pub const SKIP_LAST: &str = "db.example.com/skip-last-backup";

const PORT: i32 = 5432;

/// The headless Service of the members.
pub fn members_service(database: &TypedObject<Database>) -> Service {
    let mut service = service(
        database,
        database.key().name(),
        labels(&[(MEMBER_OF, database.key().name())]),
    );
    service.spec.get_or_insert_default().cluster_ip = Some("None".to_owned());
    service
}

/// The Service of the primary.
pub fn primary_service(database: &TypedObject<Database>) -> Service {
    let name = format!("{}-primary", database.key().name());
    let selector = labels(&[(MEMBER_OF, database.key().name()), (ROLE, PRIMARY)]);
    service(database, &name, selector)
}

/// The members. They are restarted by the operator, which knows the right order, and not by the StatefulSet.
pub fn stateful_set(database: &TypedObject<Database>, version: &str, members: i32) -> StatefulSet {
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

/// A backup Job that is deleted with the database.
pub fn backup(database: &TypedObject<Database>, name: &str, version: &str) -> Job {
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

/// The backup Job that outlives the database.
pub fn last_backup(database: &TypedObject<Database>, version: &str) -> Job {
    let mut job = backup(database, &last_backup_name(database), version);
    job.metadata.owner_references = None;
    job
}

/// Unique for each database of the same name, by its uid.
pub fn last_backup_name(database: &TypedObject<Database>) -> String {
    let uid = database.uid();
    format!("{}-last-{}", database.key().name(), &uid[..uid.len().min(8)])
}

fn service(database: &TypedObject<Database>, name: &str, selector: BTreeMap<String, String>) -> Service {
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

fn meta(database: &TypedObject<Database>, name: &str) -> ObjectMeta {
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
