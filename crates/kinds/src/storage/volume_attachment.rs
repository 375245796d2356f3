//! VolumeAttachment: a request to attach a volume to a node.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::columns::{self, Column};
use crate::core::persistent_volume;
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy, Subresource};
use crate::{meta, top_level};

const METADATA_BYTES: usize = 256 * 1024;
const MESSAGE_BYTES: usize = 1024;
const ATTACHER_CHARACTERS: usize = 63;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

#[derive(Debug)]
pub struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "VolumeAttachment");
    const NAMES: Names = Names::new("volumeattachments", "volumeattachment");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        ATTACHER,
        Column::text("PV", |attachment, _| {
            let source = attachment.at("spec").at("source");
            columns::or_empty(&source.at("persistentVolumeName"))
        })
        .description("The persistent volume."),
        Column::text("Node", |attachment, _| {
            columns::or_empty(&attachment.at("spec").at("nodeName"))
        })
        .description("The node."),
        Column::boolean("Attached", |attachment, _| {
            Cell::Boolean(attachment.at("status").at("attached").bool())
        })
        .description("Whether the volume is attached."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn prepare_status(attachment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(attachment, old, &["metadata", "status"]);
        meta::keep_for_status(attachment, old);
    }

    fn validate(attachment: &FieldRef<'_>) {
        validate_handwritten(attachment);
        validate_attacher(attachment);
    }

    // The spec is immutable, so it is not validated again.
    fn validate_for_update(attachment: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_handwritten(attachment);
        if !attachment.at("spec").is_same(&old.at("spec")) {
            validate_attacher(attachment);
        }
    }

    fn validate_update(attachment: &FieldRef<'_>, old: &FieldRef<'_>) {
        attachment.at("spec").declarative_immutable(&old.at("spec"));
    }

    fn validate_status(attachment: &FieldRef<'_>, old: &FieldRef<'_>) {
        Self::validate_for_update(attachment, old);
        Self::validate_update(attachment, old);
    }
}

const ATTACHER: Column = {
    let mut column = Column::text("Attacher", |attachment, _| {
        columns::or_empty(&attachment.at("spec").at("attacher"))
    })
    .description("The driver that attaches the volume.");
    column.header.format = "name";
    column
};

fn validate_handwritten(attachment: &FieldRef<'_>) {
    let (spec, status) = (attachment.at("spec"), attachment.at("status"));
    let volume = spec.at("source").at("persistentVolumeName");
    validate_source(&spec.at("source"));
    name::check(&spec.at("nodeName"), name::check_dns1123_subdomain);
    validate_metadata(&status.at("attachmentMetadata"));
    validate_error(&status.at("attachError"));
    validate_error(&status.at("detachError"));
    if volume.is_set() {
        name::check(&volume, name::check_dns1123_subdomain);
    }
}

/// The name of an attacher; declarative validation checks this last.
fn validate_attacher(attachment: &FieldRef<'_>) {
    let attacher = attachment.at("spec").at("attacher");
    if !attacher.require() {
        return;
    }
    if attacher.str().chars().count() > ATTACHER_CHARACTERS {
        attacher.errors().too_long_characters(ATTACHER_CHARACTERS);
    }
    name::check_declarative(&attacher, name::caseless_subdomain);
}

fn validate_source(source: &FieldRef<'_>) {
    let (inline, volume) = (source.at("inlineVolumeSpec"), source.at("persistentVolumeName"));
    match (inline.is_set(), volume.is_set()) {
        (false, false) => source.required(ONE_SOURCE),
        (true, true) => source.forbidden(ONE_SOURCE),
        (false, true) if volume.is_empty() => {
            volume.required("must specify non empty persistentVolumeName");
        }
        (false, true) => {}
        (true, false) => persistent_volume::spec::validate_inline(&inline),
    }
}

fn validate_metadata(metadata: &FieldRef<'_>) {
    let bytes: usize = metadata
        .entries()
        .map(|(key, value)| key.len() + value.str().len())
        .sum();
    if bytes > METADATA_BYTES {
        metadata.too_long(METADATA_BYTES);
    }
}

fn validate_error(error: &FieldRef<'_>) {
    if error.at("message").str().len() > MESSAGE_BYTES {
        error.at("message").too_long(MESSAGE_BYTES);
    }
    let code = error.at("errorCode");
    if code.int() < 0 {
        code.invalid("must be between 0 and 2147483647, inclusive");
    }
}
