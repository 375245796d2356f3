//! VolumeAttachment: a request to attach a volume to a node.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, meta, name, top_level,
};

use crate::core::persistent_volume;

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
            let source = attachment.at(fields::SPEC).at(fields::SOURCE);
            columns::or_empty(&source.at(fields::PERSISTENT_VOLUME_NAME))
        })
        .description("The persistent volume."),
        Column::text("Node", |attachment, _| {
            columns::or_empty(&attachment.at(fields::SPEC).at(fields::NODE_NAME))
        })
        .description("The node."),
        Column::boolean("Attached", |attachment, _| {
            Cell::Boolean(attachment.at(fields::STATUS).at(fields::ATTACHED).bool())
        })
        .description("Whether the volume is attached."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.no_unconditional_update().returns_deleted();

    fn prepare_status(attachment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(attachment, old, &[fields::METADATA, fields::STATUS]);
        meta::keep_for_status(attachment, old);
    }

    fn validate(attachment: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_handwritten(attachment);
        validate_attacher(attachment);
    }

    // The spec is immutable, so it is not validated again.
    fn validate_for_update(attachment: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let is_changed = !attachment.at(fields::SPEC).is_same(&old.at(fields::SPEC));
        let has_attacher = !attachment.at(fields::SPEC).at(fields::ATTACHER).is_empty();
        if is_changed && !has_attacher {
            validate_attacher(attachment);
        }
        validate_handwritten(attachment);
        if is_changed && has_attacher {
            validate_attacher(attachment);
        }
    }

    fn validate_update(attachment: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        attachment
            .at(fields::SPEC)
            .declarative_immutable(&old.at(fields::SPEC));
    }

    fn validate_status(attachment: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        Self::validate_for_update(attachment, old, facts);
        Self::validate_update(attachment, old, facts);
    }
}

const ATTACHER: Column = {
    let mut column = Column::text("Attacher", |attachment, _| {
        columns::or_empty(&attachment.at(fields::SPEC).at(fields::ATTACHER))
    })
    .description("The driver that attaches the volume.");
    column.header.format = "name";
    column
};

fn validate_handwritten(attachment: &FieldRef<'_>) {
    let (spec, status) = (attachment.at(fields::SPEC), attachment.at(fields::STATUS));
    let volume = spec.at(fields::SOURCE).at(fields::PERSISTENT_VOLUME_NAME);
    validate_source(&spec.at(fields::SOURCE));
    name::check(&spec.at(fields::NODE_NAME), name::check_dns1123_subdomain);
    validate_metadata(&status.at(fields::ATTACHMENT_METADATA));
    validate_error(&status.at(fields::ATTACH_ERROR));
    validate_error(&status.at(fields::DETACH_ERROR));
    if volume.is_set() {
        name::check(&volume, name::check_dns1123_subdomain);
    }
}

/// The name of an attacher; declarative validation checks this last.
fn validate_attacher(attachment: &FieldRef<'_>) {
    let attacher = attachment.at(fields::SPEC).at(fields::ATTACHER);
    if !attacher.require() {
        return;
    }
    if attacher.str().chars().count() > ATTACHER_CHARACTERS {
        attacher.errors().too_long_characters(ATTACHER_CHARACTERS);
    }
    name::check_declarative(&attacher, name::caseless_subdomain);
}

fn validate_source(source: &FieldRef<'_>) {
    let (inline, volume) = (
        source.at(fields::INLINE_VOLUME_SPEC),
        source.at(fields::PERSISTENT_VOLUME_NAME),
    );
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
    if error.at(fields::MESSAGE).str().len() > MESSAGE_BYTES {
        error.at(fields::MESSAGE).too_long(MESSAGE_BYTES);
    }
    let code = error.at(fields::ERROR_CODE);
    if code.int() < 0 {
        code.invalid("must be between 0 and 2147483647, inclusive");
    }
}
