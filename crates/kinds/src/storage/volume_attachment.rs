//! VolumeAttachment: that a volume is to be attached to a node.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::core::persistent_volume;
use crate::shared::name;
use crate::strategy::{Facts, Names, Rules, Scope, Strategy, Subresource};
use crate::{meta, parts};

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
        .about("The volume."),
        Column::text("Node", |attachment, _| {
            columns::or_empty(&attachment.at("spec").at("nodeName"))
        })
        .about("The node."),
        Column::boolean("Attached", |attachment, _| {
            Cell::Boolean(attachment.at("status").at("attached").bool())
        })
        .about("Whether it is attached."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn prepare_status(attachment: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(attachment, old, &["metadata", "status"]);
        meta::keep_for_status(attachment, old);
    }

    fn validate(attachment: &At<'_>) {
        validate_hand(attachment);
        validate_attacher(attachment);
    }

    // What was fine stays fine: the spec does not change.
    fn validate_again(attachment: &At<'_>, old: &At<'_>) {
        validate_hand(attachment);
        if !attachment.at("spec").is_same(&old.at("spec")) {
            validate_attacher(attachment);
        }
    }

    fn validate_update(attachment: &At<'_>, old: &At<'_>) {
        attachment.at("spec").declared_immutable(&old.at("spec"));
    }

    fn validate_status(attachment: &At<'_>, old: &At<'_>) {
        Self::validate_again(attachment, old);
        Self::validate_update(attachment, old);
    }
}

const ATTACHER: Column = {
    let mut column = Column::text("Attacher", |attachment, _| {
        columns::or_empty(&attachment.at("spec").at("attacher"))
    })
    .about("The driver that attaches it.");
    column.definition.format = "name";
    column
};

fn validate_hand(attachment: &At<'_>) {
    let (spec, status) = (attachment.at("spec"), attachment.at("status"));
    let volume = spec.at("source").at("persistentVolumeName");
    validate_source(&spec.at("source"));
    name::check(&spec.at("nodeName"), name::subdomain);
    validate_metadata(&status.at("attachmentMetadata"));
    validate_error(&status.at("attachError"));
    validate_error(&status.at("detachError"));
    if volume.is_set() {
        name::check(&volume, name::subdomain);
    }
}

/// The shape says what an attacher is called, which is checked last.
fn validate_attacher(attachment: &At<'_>) {
    let attacher = attachment.at("spec").at("attacher");
    if !attacher.require() {
        return;
    }
    if attacher.str().chars().count() > ATTACHER_CHARACTERS {
        attacher.errors().too_long_characters(ATTACHER_CHARACTERS);
    }
    name::declared(&attacher, name::caseless_subdomain);
}

fn validate_source(source: &At<'_>) {
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

fn validate_metadata(metadata: &At<'_>) {
    let bytes: usize = metadata
        .entries()
        .map(|(key, value)| key.len() + value.str().len())
        .sum();
    if bytes > METADATA_BYTES {
        metadata.too_long(METADATA_BYTES);
    }
}

fn validate_error(error: &At<'_>) {
    if error.at("message").str().len() > MESSAGE_BYTES {
        error.at("message").too_long(MESSAGE_BYTES);
    }
    let code = error.at("errorCode");
    if code.int() < 0 {
        code.invalid("must be between 0 and 2147483647, inclusive");
    }
}
