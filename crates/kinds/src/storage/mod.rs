//! The `storage.k8s.io` group: storage classes, CSI drivers and volume attachments.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;

mod driver;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<csi_driver::CsiDriver>::new()),
        Arc::new(BuiltinKind::<csi_node::CsiNode>::new()),
        Arc::new(BuiltinKind::<csi_storage_capacity::CsiStorageCapacity>::new()),
        Arc::new(BuiltinKind::<storage_class::StorageClass>::new()),
        Arc::new(BuiltinKind::<volume_attachment::VolumeAttachment>::new()),
        Arc::new(BuiltinKind::<volume_attributes_class::VolumeAttributesClass>::new()),
    ]
}
