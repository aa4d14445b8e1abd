#include <cstdio>
#include "gpu/convolution_depthwise_rows_ncx.hpp"
using namespace gradnn::gpu;
int main(){ struct P{int n,c,h,w,k;}; for(P p: {P{32,512,1,1000,31},P{32,512,1,1024,31},P{16,256,1,4096,7},P{8,64,64,64,9},P{64,384,1,197,3},P{4,1024,1,16384,63},P{32,512,1,1001,31},P{2,768,1,2048,4},P{1,8,1,1000000,15}})
 for(int b:{4,8}) for(int wt:{0,1}){ depthwise_shape s; s.images=p.n;s.channels=p.c; s.axes[1].read=s.axes[1].written=p.h; s.axes[2].read=s.axes[2].written=p.w;s.axes[2].kernel=p.k;s.axes[2].pad=(p.k-1)/2; s.to_src=!wt;
  int64_t st[5]={(int64_t)p.c*p.h*p.w,(int64_t)p.h*p.w,(int64_t)p.h*p.w,p.w,1}; for(int i=0;i<5;++i)s.read_strides[i]=s.written_strides[i]=st[i];
  depthwise_rows_ncx c; bool t=rows_ncx_take(s,b); bool ok=cut_rows_ncx(c,s,b,wt,132,1024);
  double eff=(double)p.n*p.h*p.w/((double)c.row_tiles*c.pieces*c.threads*rows_ncx_run(b));
  printf("%dx%dx%dx%d k%d %s %s take %d ok %d lead %d chunks %d jobs %d groups %d pieces %d rows %d tiles %d threads %d parts %d shared %zu wide %d%d lanes %.2f blocks %ld\n",p.n,p.c,p.h,p.w,p.k,b==4?"f32":"f64",wt?"W":"data",t,ok,c.lead,c.chunks,c.jobs,c.groups,c.pieces,c.rows,c.row_tiles,c.threads,c.parts,c.shared_bytes,c.wide_read,c.wide_written,eff,wt?(long)c.parts*p.c:(long)c.data_blocks(p.c)); }}
