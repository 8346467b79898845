/* SPDX-License-Identifier: Apache-2.0 */
#undef NUM
#undef NUM_MAX
#undef LANES
#undef LANE_BITS
#undef VEC
#undef VMAX
#undef BELOW
#undef TARGET
#undef NAME
